"""A conversion that translates otherwise than its model: what is wrong with it is named."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from interop.random_marian import sentences, write_marian, write_run
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from glassformer.checkpoint import weights_of
from glassformer.cli.main import app
from glassformer.decoding.search.outputs import Output
from glassformer.errors import CheckpointError, InputError, TokenizerError
from glassformer.explain.compare.conversion import diff_conversion
from glassformer.explain.compare.ctranslate2_directory import read_arrays
from glassformer.explain.compare.findings import find_differences
from glassformer.explain.compare.sides import Side, open_sides
from glassformer.interop.imported_model import ImportedModel
from glassformer.interop.programs import export_model, read_model
from glassformer.interop.transformers import to_transformers_name, with_end
from glassformer.interop.transformers_export import export_transformers
from glassformer.run_directory import load_run
from glassformer.settings import DecodeConfig
from glassformer.text.tokenizer.tokenizer import Tokenizer

TEXTS = sentences(4, 5)


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A run, its export to transformers, a Marian directory and the run that it is imported to."""
    place = tmp_path_factory.mktemp("made")
    write_run(place / "run", norm="post", output_bias=True)
    export_transformers(load_run(place / "run", "cpu"), place / "out")
    write_marian(place / "marian")
    read_model(str(place / "marian"), print).write(place / "imported")
    return place


@pytest.fixture
def places(made, tmp_path) -> tuple[Path, Path]:
    """A run and its export."""
    return tuple(Path(shutil.copytree(made / name, tmp_path / name)) for name in ("run", "out"))


def change_json(path: Path, **values: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def change_weights(directory: Path, **values: torch.Tensor) -> None:
    path = directory / "model.safetensors"
    save_file({**load_file(path), **values}, path, {"format": "pt"})


def test_a_whole_conversion_agrees(places):
    found = diff_conversion(*places, TEXTS, device="cpu")
    assert found.agrees, found.lines()
    assert found.largest_gap < 1e-4
    assert found.lines()[-1] == "They agree."


def wrong_start(out: Path, run: Path) -> None:
    for name in ("config.json", "generation_config.json"):
        change_json(out / name, decoder_start_token_id=2)


def swapped_layout(out: Path, run: Path) -> None:
    """Weights written without the permutation, under the names that they should have."""
    ours = weights_of(load_run(run, "cpu").model)
    stacks = {
        to_transformers_name(name): value for name, value in ours.items() if name.startswith(("encoder", "decoder"))
    }
    change_weights(out, **stacks, **{"model.shared.weight": ours["src_embedding.tokens.weight"]})


def dropped_bias(out: Path, run: Path) -> None:
    change_weights(out, final_logits_bias=torch.zeros_like(load_file(out / "model.safetensors")["final_logits_bias"]))


def other_norm(out: Path, run: Path) -> None:
    change_json(out / "generation_config.json", length_penalty=2.0)


def forbidden_tokens(out: Path, run: Path) -> None:
    change_json(out / "generation_config.json", suppress_tokens=[20, 21])


def other_tokenizer(out: Path, run: Path) -> None:
    size = load_run(run, "cpu").src_tokenizer.size
    other = Tokenizer.train("bpe", sentences(900, 8), size)
    assert other.size == size
    (out / "tokenizer.json").write_text(with_end(other.json))


def swapped_entries(out: Path, run: Path) -> None:
    """The ids of two entries exchanged, which occur in none of the texts."""
    values = json.loads((out / "tokenizer.json").read_text())
    entries = {number: entry for entry, number in values["model"]["vocab"].items()}
    values["model"]["vocab"] |= {entries[200]: 201, entries[201]: 200}
    (out / "tokenizer.json").write_text(json.dumps(values))


def other_settings(**settings: object):
    return lambda out, run: change_json(out / "config.json", **settings)


def other_sinusoid(out: Path, run: Path) -> None:
    """As a conversion of Marian's weights has another table than Marian itself."""
    shutil.rmtree(out)
    found = load_run(run, "cpu")
    config = replace(found.config, model=replace(found.config.model, sinusoid="tensor2tensor"))
    ImportedModel(config, weights_of(found.model), (found.src_tokenizer, found.tgt_tokenizer)).write(out)


def changed_bias(out: Path, run: Path) -> None:
    """<pad> and <s> become probable."""
    bias = load_file(out / "model.safetensors")["final_logits_bias"].clone()
    bias[0, :2] = 5.0
    change_weights(out, final_logits_bias=bias)


@pytest.mark.parametrize(
    ("mistake", "cause", "detail"),
    [
        (wrong_start, "start token", "A starts a target with <s>, B with </s>"),
        (swapped_layout, "sinusoid layout", "is permuted twice"),
        (dropped_bias, "output bias", "B none"),
        (other_norm, "search setting", "decode.length_penalty is 0.6 in A, 2.0 in B"),
        (forbidden_tokens, "search setting", "suppress_tokens"),
        (other_tokenizer, "tokenizer", "of the source: "),
        (swapped_entries, "tokenizer", "of the source: id 200 is "),
        (other_settings(activation_function="gelu"), "model setting", "model.activation is 'relu' in A, 'gelu' in B"),
        (other_settings(scale_embedding=False), "model setting", "model.scale_embedding is True in A, False in B"),
        (
            other_settings(encoder_attention_heads=4, decoder_attention_heads=4),
            "model setting",
            "n_heads is 3 in A, 4 in B",
        ),
        (other_settings(max_position_embeddings=10), "model setting", "model.max_length is 60 in A, 10 in B"),
        (changed_bias, "output bias", "<pad> and <s> have ["),
        (other_sinusoid, "model setting", "model.sinusoid is 'paper' in A, 'tensor2tensor' in B"),
    ],
)
def test_what_is_wrong_with_a_conversion_is_named(mistake, cause, detail, places):
    run, out = places
    mistake(out, run)
    found = diff_conversion(run, out, TEXTS, device="cpu")
    assert not found.agrees
    assert found.findings[0].what == cause, found.lines()
    assert detail in found.findings[0].detail
    assert cause in found.cause
    assert all(one.why == cause for one in found.outputs)
    json.dumps(found.to_mapping())


@pytest.mark.parametrize("name", ["config.json", "generation_config.json"])
def test_another_start_in_one_of_two_files_is_named(name, places):
    run, out = places
    change_json(out / name, decoder_start_token_id=2)
    found = diff_conversion(run, out, TEXTS, device="cpu")
    assert found.findings[0].what == "start token", found.lines()
    assert any("'s config.json, " in one.detail and "generation_config" in one.detail for one in found.findings)


@pytest.mark.parametrize("name", ["config.json", "generation_config.json"])
def test_another_end_in_one_of_two_files_is_named(name, made, tmp_path):
    """By diff, or by the import that it reads the directory with."""
    shutil.copytree(made / "marian", tmp_path / "hf")
    change_json(tmp_path / "hf" / name, eos_token_id=5)
    try:
        said = diff_conversion(made / "imported", tmp_path / "hf", TEXTS, device="cpu").cause
    except TokenizerError as error:
        said = str(error)
    assert "end token" in said or "eos" in said


def test_an_import_agrees_with_what_it_was_made_of(made):
    done = CliRunner().invoke(app, ["diff", str(made / "marian"), str(made / "imported"), "--text", TEXTS[0]])
    assert done.exit_code == 0, done.output
    assert "They agree." in done.output


def set_decode(run: Path, **values: object) -> None:
    data = json.loads((run / "config.json").read_text())
    data["config"]["decode"] |= values
    (run / "config.json").write_text(json.dumps(data))


@pytest.mark.parametrize(
    ("one", "other", "names"),
    [
        ({"sample": True, "beam": 4, "coverage_penalty": 1.0}, {"sample": True, "beam": 1}, []),
        ({"sample": True}, {"sample": True, "top_k": 5, "seed": 1}, ["top_k", "seed"]),
        ({"sample": True}, {"top_k": 5}, ["sample", "top_k"]),
        ({"min_p": 0.1, "cache": False}, {}, []),
        ({"length_penalty": 0.0, "length_norm": "power"}, {"length_penalty": 0.0}, []),
        ({"length_norm": "power", "split_sentences": True}, {}, ["length_norm", "split_sentences"]),
    ],
)
def test_settings_of_the_search_are_compared_if_they_change_outputs(one, other, names, places):
    a, b = open_sides(*places, "cpu")
    pair = (replace(a, decode=DecodeConfig(**one)), replace(b, decode=DecodeConfig(**other)))
    found = find_differences(*pair, TEXTS, TEXTS)
    assert [finding.detail.split()[0].removeprefix("decode.") for finding in found] == names


def test_outputs_may_be_longer_than_their_text_would_be_as_a_target(places):
    """Outputs of random weights are cut at 60 tokens, and hold bytes that are no text."""
    run, out = places
    set_decode(run, max_length_b=200)
    found = diff_conversion(run, out, TEXTS, device="cpu")
    assert found.largest_gap == 0.0
    assert [one.detail for one in found.findings] == ["decode.max_length_b is 200 in A, 20 in B"]


@pytest.mark.parametrize("targets", [["ba"], ["x " * 100] * 4])
def test_targets_that_do_not_fit_are_refused(targets, places):
    with pytest.raises(InputError, match=r"^targets"):
        diff_conversion(*places, TEXTS, targets, device="cpu")


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("twins", [True, False])
def test_outputs_are_rounding_only_if_they_are_as_probable(twins, beam, places, tmp_path, monkeypatch):
    _, out = places
    first = next(iter(load_run(places[0], "cpu").tgt_tokenizer.to_ids("ba")))
    if twins:  # two tokens with one row
        weights = load_file(out / "model.safetensors")
        weights["model.shared.weight"][250] = weights["model.shared.weight"][first]
        weights["final_logits_bias"][0, 250] = weights["final_logits_bias"][0, first]
        change_weights(out, **weights)
    change_json(out / "generation_config.json", num_beams=beam)
    read_model(str(out), print).write(tmp_path / "again")
    outputs = {str(out): [first, 250, 2], str(tmp_path / "again"): [first, first, 2]}
    monkeypatch.setattr(
        Side,
        "search",
        lambda side, texts, _: [[Output(outputs[side.name], -1.0, -1.0, truncated=False)]] * len(texts),
    )
    found = diff_conversion(tmp_path / "again", out, TEXTS, device="cpu")
    assert found.agrees == twins, found.lines()
    assert [one.why for one in found.outputs] == ["rounding" if twins else "outputs"] * 4


@pytest.fixture
def export_ct2(places, tmp_path):
    """The run with other settings of its search, and its CTranslate2 directory."""
    pytest.importorskip("ctranslate2")

    def export(quantization: str | None = None, run: Path = places[0], **decode: object) -> tuple[Path, Path]:
        set_decode(run, **decode)
        export_model(run, "ctranslate2", tmp_path / "ct2", quantization=quantization)
        return run, tmp_path / "ct2"

    return export


@pytest.mark.parametrize(
    ("decode", "detail"),
    [
        ({"repetition_penalty": 3.0}, "decode.repetition_penalty is 3.0 in A; CTranslate2 multiplies logits"),
        ({"coverage_penalty": 1.0}, "decode.coverage_penalty is 1.0 in A; CTranslate2 does not keep the attention"),
        ({"sample": True}, "decode.sample is True in A; CTranslate2 draws other random numbers"),
        ({"no_repeat_ngram": 2}, "decode.no_repeat_ngram is 2; CTranslate2 makes the probabilities of what it"),
        ({"min_length": 15, "beam": 2}, "decode.min_length is 15; CTranslate2 makes the probabilities of what it"),
    ],
)
def test_settings_that_ctranslate2_has_not_are_named(decode, detail, export_ct2):
    found = diff_conversion(*export_ct2(**decode), TEXTS, device="cpu")
    assert found.largest_gap < 1e-4
    assert found.cause == "search setting"
    assert any(detail in one.detail for one in found.findings), [one.detail for one in found.findings]
    assert found.outputs
    assert all(one.why == "search setting" for one in found.outputs)


@pytest.mark.parametrize(
    "decode",
    [
        {"beam": 1, "no_repeat_ngram": 2, "min_length": 15},
        {"max_length_b": 200},
        {"max_length_a": 1.0, "max_length_b": 2},
        {"seed": 3, "top_k": 5, "min_p": 0.1, "cache": False},
        {"split_sentences": True},
    ],
)
def test_ctranslate2_searches_with_the_settings_of_the_other_side(decode, export_ct2):
    run, ct2 = export_ct2(**decode)
    for pair in ((run, ct2), (ct2, run)):
        found = diff_conversion(*pair, [" ".join(TEXTS[:2]), *TEXTS], device="cpu")
        assert found.agrees, found.lines()
        assert not found.outputs


def test_probable_control_tokens_are_named(export_ct2, tmp_path):
    """Random weights give <pad> and <s> a probability, which CTranslate2 shares out."""
    write_run(tmp_path / "pre", norm="pre", joint=False, tie_embeddings="target")
    found = diff_conversion(*export_ct2(run=tmp_path / "pre"), sentences(6, 5), device="cpu")
    assert found.cause == "control tokens", found.lines()
    assert "of the probability in A, none in CTranslate2" in found.findings[0].detail


def change_weights_of_ct2(ct2: Path) -> None:
    """Ten numbers of a matrix become zeros."""
    data = bytearray((ct2 / "model.bin").read_bytes())
    at = data.index(b"encoder/layer_1/self_attention/linear_1/weight") + 80
    data[at : at + 40] = bytes(40)
    (ct2 / "model.bin").write_bytes(data)


def setting(**values: object):
    return lambda ct2: change_json(ct2 / "config.json", **values)


def rewrite(name: str, change):
    def apply(ct2: Path) -> None:
        (ct2 / name).write_text(json.dumps(change(json.loads((ct2 / name).read_text()))))

    return apply


VOCABULARY = "shared_vocabulary.json"


@pytest.mark.parametrize(
    ("mistake", "cause", "detail"),
    [
        (setting(eos_token="O"), "end token", "with </s>, B with O"),
        (setting(decoder_start_token="</s>"), "start token", "B with </s>"),
        (setting(layer_norm_epsilon=0.01), "model setting", "model.norm_eps is 1e-05 in A, 0.01 in B"),
        (setting(add_source_eos=True), "model setting", "add_source_eos is False in A, True in B"),
        (rewrite(VOCABULARY, lambda all: [*all[:4], all[5], all[4], *all[6:]]), "tokenizer", "id 4 is "),
        (rewrite(VOCABULARY, lambda all: [*all[:4], *map(str, range(4, len(all)))]), "tokenizer", "id 4 is "),
        (rewrite(VOCABULARY, lambda all: all[:100]), "tokenizer", "300 entries in its tokenizer, 100 in"),
        (
            change_weights_of_ct2,
            "weights",
            "1 of 41 arrays differ, the first is encoder/layer_1/self_attention/linear_1/weight, there row 0",
        ),
    ],
)
def test_what_is_wrong_with_a_ctranslate2_directory_is_named(mistake, cause, detail, export_ct2):
    run, ct2 = export_ct2()
    mistake(ct2)
    found = diff_conversion(run, ct2, TEXTS, device="cpu")
    assert found.findings[0].what == cause, found.lines()
    assert detail in found.findings[0].detail
    assert found.lines()[-1] == f"They differ: {cause}."
    json.dumps(found.to_mapping(), allow_nan=False)


@pytest.mark.parametrize("quantization", ["int8", "int16", "float16", "bfloat16"])
def test_quantized_weights_are_named_and_what_is_more_than_their_rounding(quantization, export_ct2):
    run, ct2 = export_ct2(quantization)
    found = diff_conversion(run, ct2, TEXTS, device="cpu")
    assert found.cause == "quantization"
    assert found.findings[0].detail == f"the weights are float32 in A, {quantization} in B"
    change_a_row_that_no_text_uses(ct2)
    found = diff_conversion(run, ct2, ["a"], device="cpu")
    assert found.cause == "weights, quantization"
    expected = "3 of 41 arrays differ, the first is encoder/embeddings_0/weight, there row 290"  # one tied matrix
    assert found.findings[0].detail == expected


def change_a_row_that_no_text_uses(ct2: Path) -> None:
    """The first bytes of the row of id 290 of the embeddings of the target change."""
    array = read_arrays(ct2 / "model.bin")["decoder/embeddings/weight"]
    data = bytearray((ct2 / "model.bin").read_bytes())
    size = {"float32": 4, "int8": 1}.get(array.kind, 2)
    at = array.offset + 290 * array.shape[1] * size
    data[at : at + 4] = bytes(byte ^ 0x3C for byte in data[at : at + 4])
    (ct2 / "model.bin").write_bytes(data)


def test_of_two_ctranslate2_directories_the_weights_are_compared_too(export_ct2, tmp_path):
    _, ct2 = export_ct2("int8")
    shutil.copytree(ct2, tmp_path / "other")
    assert diff_conversion(ct2, tmp_path / "other", TEXTS, device="cpu").agrees
    change_a_row_that_no_text_uses(tmp_path / "other")
    found = diff_conversion(ct2, tmp_path / "other", ["a"], device="cpu")
    assert found.cause == "weights"


def cut(name: str, size: int):
    return lambda ct2: (ct2 / name).write_bytes((ct2 / name).read_bytes()[:size])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (cut("model.bin", 0), r"model.bin: ends too early"),
        (cut("model.bin", 5000), r"model.bin: ends too early"),
        (cut(VOCABULARY, 20), rf"{VOCABULARY}: cannot be read as JSON"),
        (rewrite(VOCABULARY, lambda _: {}), rf"{VOCABULARY}: found no list of tokens"),
        (lambda ct2: (ct2 / VOCABULARY).unlink(), rf"has no {VOCABULARY} and no source_vocabulary.json"),
        (lambda ct2: (ct2 / "config.json").unlink(), r"config.json: cannot be read"),
        (rewrite("config.json", lambda _: []), r"config.json: found list"),
        (setting(decoder_start_token=3), r"config.json: decoder_start_token: found 3, expected a token"),
        (setting(layer_norm_epsilon="x"), r"ct2: CTranslate2 cannot use it: .* Export the run again"),
    ],
)
def test_a_damaged_ctranslate2_directory_is_refused_by_name(damage, message, export_ct2):
    run, ct2 = export_ct2()
    damage(ct2)
    with pytest.raises(CheckpointError, match=message):
        diff_conversion(run, ct2, TEXTS, device="cpu")
