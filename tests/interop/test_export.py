"""Runs go out to Hugging Face and come back as they were; Marian releases come in as they were written."""

import io
import json
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from interop.marian_release import write_release
from interop.random_marian import sentences, transformers, write_marian, write_run, write_spm
from typer.testing import CliRunner

from benchmarks.transformers_model import transformers_model
from glassformer.bundled import BUNDLED
from glassformer.cli.main import app
from glassformer.decoding import Translator
from glassformer.errors import CheckpointError, ConfigError
from glassformer.interop.archives import open_archive, read_arrays
from glassformer.interop.imported_model import ImportedModel
from glassformer.interop.marian.release import import_marian
from glassformer.interop.transformers import import_transformers
from glassformer.interop.transformers_export import check_exportable, export_transformers
from glassformer.run_directory import load_run
from glassformer.settings import ModelConfig

TEXTS = sentences(8, 5)


@pytest.mark.parametrize(
    "changes",
    [
        {"norm": "post"},
        {"norm": "pre"},
        {"norm": "pre", "activation": "swish", "attention_bias": True, "output_bias": True, "scale_embedding": False},
        {"norm": "post", "tie_embeddings": "target", "joint": False, "activation": "gelu"},
        {"norm": "post", "tie_embeddings": "none", "joint": False, "attention_bias": True},
    ],
)  # fmt: skip
def test_hugging_face_computes_the_same_and_it_all_comes_back(changes, tmp_path):
    write_run(tmp_path / "run", **changes)
    run = load_run(tmp_path / "run", "cpu")
    export_transformers(run, tmp_path / "out")
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out").eval()
    expected_class = "MarianMTModel" if changes["norm"] == "post" else "PegasusForConditionalGeneration"
    assert type(theirs).__name__ == expected_class
    src, tgt = torch.randint(4, 280, (3, 9)), torch.randint(4, 280, (3, 7))
    tgt[:, 0] = 1
    with torch.no_grad():
        expected, found = theirs(input_ids=src, decoder_input_ids=tgt).logits, run.model(src, tgt)
    assert float((expected - found).abs().max()) < 1e-4 * (1 + float(found.abs().max()))
    again = import_transformers(tmp_path / "out")
    again.write(tmp_path / "again")
    back = load_run(tmp_path / "again", "cpu")
    assert back.config.model == run.config.model
    assert [one.digest for one in again.tokenizers] == [run.src_tokenizer.digest, run.tgt_tokenizer.digest]
    for (name, weight), other in zip(run.model.named_parameters(), back.model.parameters(), strict=True):
        assert torch.equal(weight, other), name


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_generate_gives_our_translations(norm, tmp_path):
    write_run(tmp_path / "run", norm=norm, seed=3)
    done = CliRunner().invoke(
        app, ["export", str(tmp_path / "run"), "--to", "transformers", "--out", str(tmp_path / "out")]
    )
    assert done.exit_code == 0, done.output
    translator = Translator.load(tmp_path / "run", engine="torch")
    found = translator.translate(TEXTS)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out")
    made = model.generate(
        **tokenizer(TEXTS, return_tensors="pt", padding=True, return_token_type_ids=False), max_length=21
    )
    texts = tokenizer.batch_decode(made, skip_special_tokens=True)
    same = [one.text == text for one, text in zip(found, texts, strict=True)]
    assert all(same), (found[same.index(False)], texts[same.index(False)])


def test_the_bundled_model_goes_out_and_comes_back(tmp_path):
    run = load_run(BUNDLED, "cpu")
    notes = export_transformers(run, tmp_path / "out")
    assert "decode.length_norm = power" in notes[0]
    again = import_transformers(tmp_path / "out")
    assert again.config.model == run.config.model
    assert all(torch.equal(again.weights[name], weight) for name, weight in run.model.named_parameters())


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"positions": "rotary"}, "model.positions"),
        ({"autoregressive_sublayer": "ssru"}, "model.autoregressive_sublayer"),
        ({"norm_eps": 1e-3}, "model.norm_eps"),
        ({"d_k": 5}, "model.d_k"),
        ({"d_v": 5}, "model.d_v"),
        ({"norm": "pre", "tie_embeddings": "none"}, "model.tie_embeddings"),
        ({"bos_id": 3}, "model.bos_id"),
    ],
)
def test_what_hugging_face_does_not_have_is_named(changes, name):
    sizes = {"src_vocab": 50, "tgt_vocab": 50, "d_model": 24, "n_heads": 3}
    with pytest.raises(ConfigError, match=f"{name}: found"):
        check_exportable(ModelConfig(**{**sizes, **changes}))


def marian_release(directory: Path) -> ImportedModel:
    """A native release, written by our inverse from an import."""
    write_marian(directory / "hf")
    imported = import_transformers(directory / "hf")
    imported.write(directory / "run")
    write_release(load_run(directory / "run", "cpu"), directory / "native")
    write_spm(directory / "native")
    return imported


def test_a_marian_release_is_read_as_it_was_written(tmp_path):
    imported = marian_release(tmp_path)
    for place in (tmp_path / "native", zip_of(tmp_path / "native", tmp_path / "native.zip")):
        again = import_marian(place)
        assert again.tokenizers[0].json == imported.tokenizers[0].json
        for name, weight in imported.weights.items():
            if "output_projection" not in name and "tokens" not in name:
                assert torch.equal(again.weights[name], weight), name
        assert torch.equal(
            again.weights["src_embedding.tokens.weight"], imported.weights["src_embedding.tokens.weight"]
        )
        bias = again.weights["output_projection.linear.bias"]
        assert torch.equal(bias[2:], imported.weights["output_projection.linear.bias"][2:])
        assert bias[:2].tolist() == [-100.0, -100.0], "Marian has no padding"


def test_ctranslate2_reads_the_release_and_scores_as_we_do(tmp_path):
    ctranslate2 = pytest.importorskip("ctranslate2")
    pytest.importorskip("yaml")
    marian_release(tmp_path)
    native, imported = tmp_path / "native", import_marian(tmp_path / "native", positions="paper")
    from ctranslate2.converters import MarianConverter

    converter = MarianConverter(
        str(native / "model.npz"), [str(native / f"{side}.vocab.yml") for side in ("source", "target")]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        converter.convert(str(tmp_path / "ct2"))
    theirs = ctranslate2.Translator(str(tmp_path / "ct2"), device="cpu")
    src, tgt = imported.tokenizers
    translator = Translator(imported.model(), src, tgt, imported.config.decode)
    names = [name.removeprefix(" ") for name in src.entries()]
    sources = [[names[number] for number in src.to_ids(text)] for text in TEXTS]
    found = theirs.translate_batch(sources, beam_size=1, max_decoding_length=20)
    greedy = translator.config.with_changes({"beam": 1, "max_length_a": 0.0, "max_length_b": 20, "allow_unk": True})
    for one, other in zip(found, translator.translate(TEXTS, greedy), strict=True):
        expected = [token for token in other.hypotheses[0].tokens if token != "</s>"]
        assert [token.removeprefix(" ") for token in one.hypotheses[0]] == expected


@pytest.mark.parametrize("kind", ["imported", "pre-norm"])
@pytest.mark.slow
def test_ctranslate2s_own_converter_reads_what_we_import_and_export(kind, tmp_path):
    """It starts each target of a Marian model from zeros and of a Pegasus from the padding, whatever config.json says."""
    ctranslate2 = pytest.importorskip("ctranslate2")
    if kind == "imported":
        write_marian(tmp_path / "theirs", activation_function="swish")
        import_transformers(tmp_path / "theirs").write(tmp_path / "run")
    else:
        write_run(tmp_path / "run", norm="pre", activation="relu")
        export_transformers(load_run(tmp_path / "run", "cpu"), tmp_path / "theirs")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ctranslate2.converters.TransformersConverter(str(tmp_path / "theirs")).convert(str(tmp_path / "ct2"))
    theirs = ctranslate2.Translator(str(tmp_path / "ct2"), device="cpu")
    translator = Translator.load(tmp_path / "run", engine="torch")
    src = translator.src_tokenizer
    names = [name.removeprefix(" ") for name in src.entries()]
    sources = [[*(names[number] for number in src.to_ids(text)), "</s>"] for text in TEXTS]
    banned = [["<s>"], ["<pad>"]] if kind == "pre-norm" else None
    found = theirs.translate_batch(sources, beam_size=1, max_decoding_length=20, suppress_sequences=banned)
    greedy = translator.config.with_changes({"beam": 1, "max_length_a": 0.0, "max_length_b": 20})
    for one, other in zip(found, translator.translate(TEXTS, greedy), strict=True):
        ids = [number for number in other.hypotheses[0].ids if number != 2]
        assert one.hypotheses[0] == [translator.tgt_tokenizer.entry(number).removeprefix(" ") for number in ids]


def zip_of(directory: Path, path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for file in directory.iterdir():
            archive.write(file, f"release/{file.name}")
    return path


def test_damaged_archives_are_refused(tmp_path):
    marian_release(tmp_path)
    whole = (tmp_path / "native/model.npz").read_bytes()
    (tmp_path / "native/model.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CheckpointError, match="It may be cut short"):
        import_marian(tmp_path / "native")
    (tmp_path / "native/model.npz").unlink()
    done = CliRunner().invoke(app, ["import", str(tmp_path / "native"), "--run", str(tmp_path / "new")])
    assert "has no model.npz" in str(done.exception)


def write_zip(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def npy(values: Any, **options: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, values, **options)
    return stream.getvalue()


@pytest.mark.parametrize("name", ["../evil.npz", "/etc/evil.yml", "a/../../evil.spm", "a\\..\\evil.yml"])
def test_a_member_that_leads_out_of_an_archive_is_refused(name, tmp_path):
    with pytest.raises(CheckpointError, match="leads out of it"):
        import_marian(write_zip(tmp_path / "evil.zip", {"decoder.yml": b"models: [a]", name: b"x"}))
    assert not list(tmp_path.rglob("evil.npz"))


def test_archives_without_end_and_arrays_of_objects_are_refused(tmp_path):
    with pytest.raises(CheckpointError, match="would inflate to"):
        open_archive(write_zip(tmp_path / "bomb.zip", {"a.npz": bytes(80 * 2**20)}))
    with pytest.raises(CheckpointError, match="members, expected at most"):
        open_archive(write_zip(tmp_path / "many.zip", {str(number): b"" for number in range(10_001)}))
    with pytest.raises(CheckpointError, match="would be unpickled"):
        read_arrays(write_zip(tmp_path / "a.npz", {"a.npy": npy(np.array([{}], dtype=object), allow_pickle=True)}))
    lie = npy(np.zeros(3, dtype=np.float32)).replace(b"(3,)", b"(9,)")
    with pytest.raises(CheckpointError, match="which is not what it holds"):
        read_arrays(write_zip(tmp_path / "b.npz", {"a.npy": lie}))


def test_other_marian_models_are_named(tmp_path):
    marian_release(tmp_path)
    path = tmp_path / "native/model.npz"
    arrays = dict(np.load(path))
    text = arrays["special:model.yml"].tobytes()
    for old, new, message in (
        (b'transformer-ffn-activation: "swish"', b'transformer-ffn-activation: "tanh"', "activation: found 'tanh'"),
        (b'autoreg: "self-attention"', b'autoreg: "rnn"', "autoreg: found 'rnn' with the dec-cell None"),
        (b'type: "transformer"', b'type: "amun"', "type: found 'amun'"),
    ):
        assert old in text
        np.savez(path, **{**arrays, "special:model.yml": np.frombuffer(text.replace(old, new), dtype=np.int8)})
        with pytest.raises(ConfigError, match=message):
            import_marian(tmp_path / "native")


def test_typed_control_tokens_are_text_in_what_is_exported(tmp_path):
    write_run(tmp_path / "run")
    run = load_run(tmp_path / "run", "cpu")
    export_transformers(run, tmp_path / "out")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    for text in ("Do</s> ba.", "<s>Do <pad> ba<unk>", "Do ba."):
        ids = theirs(text)["input_ids"]
        assert ids == [*run.src_tokenizer.to_ids(text), 2]
        assert theirs.decode(ids, skip_special_tokens=True) == run.src_tokenizer.to_text(ids)


@pytest.mark.parametrize("lowercase", [True, False])
def test_an_import_knows_whether_its_tokenizer_lowercases(lowercase, tmp_path):
    write_run(tmp_path / "run", lowercase=lowercase)
    export_transformers(load_run(tmp_path / "run", "cpu"), tmp_path / "out")
    again = import_transformers(tmp_path / "out")
    assert again.config.text.lowercase is lowercase
    assert again.tokenizers[0].to_text(again.tokenizers[0].to_ids("Do")) == ("do" if lowercase else "Do")


def test_quantization_is_only_ctranslate2s(tmp_path):
    done = CliRunner().invoke(
        app, ["export", "--to", "transformers", "--out", str(tmp_path / "o"), "--quantization", "int8"]
    )
    assert isinstance(done.exception, ConfigError)
    assert json.dumps(str(done.exception)).startswith('"--quantization: found with --to transformers')


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_a_model_is_made_in_memory_for_comparisons(norm, tmp_path):
    write_run(tmp_path / "run", norm=norm)
    model = load_run(tmp_path / "run", "cpu").model
    theirs = transformers_model(model, banned=[2])
    src, tgt = torch.randint(4, 280, (3, 9)), torch.randint(4, 280, (3, 7))
    with torch.no_grad():
        expected, found = theirs(input_ids=src, decoder_input_ids=tgt).logits, model(src, tgt)
    assert float((expected - found)[..., 3:].abs().max()) < 1e-4 * (1 + float(found.abs().max()))
    assert float(expected[..., :3].max()) < -1e3
