"""Search settings of Hugging Face come in and go out where the formula is the same; the others are named."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from interop.random_marian import sentences, transformers, write_marian, write_run
from typer.testing import CliRunner

from glassformer.cli.main import app
from glassformer.decoding import Translator
from glassformer.errors import CheckpointError, ConfigError, GlassformerError, TokenizerError
from glassformer.interop.generation_config import decode_settings, search_notes, search_settings
from glassformer.interop.transformers import import_transformers
from glassformer.interop.transformers_export import export_transformers
from glassformer.run_directory import load_run
from glassformer.settings import DecodeConfig, ModelConfig

# What published models have: a padding that also starts targets, and settings that change nothing.
OPUS = {
    "bad_words_ids": [[174]], "bos_token_id": 0, "decoder_start_token_id": 174, "eos_token_id": 0,
    "forced_eos_token_id": 0, "max_length": 512, "num_beams": 6, "pad_token_id": 174, "use_cache": True,
}  # fmt: skip


def decode(directory: Path, **generation):
    (directory / "config.json").write_text("{}")
    (directory / "generation_config.json").write_text(json.dumps(generation))
    settings, notes = decode_settings(directory, eos=0, never={174})
    return DecodeConfig.from_mapping(settings), notes


def test_a_published_models_search_comes_in_without_a_note(tmp_path):
    found, notes = decode(tmp_path, **OPUS)
    assert (found.beam, found.length_norm, found.length_penalty, found.max_length_b) == (6, "power", 1.0, 511)
    assert notes == []
    assert "renormalize_logits = True" in decode(tmp_path, **OPUS, renormalize_logits=True)[1][0]


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ({"num_beams": 2, "repetition_penalty": 3.0}, {"repetition_penalty": 3.0}),
        ({"min_length": 12}, {"min_length": 11}),
        ({"min_length": 12, "min_new_tokens": 4}, {"min_length": 4}),
        ({"max_length": 30, "max_new_tokens": 5}, {"max_length_b": 5}),
        ({"num_beams": 4, "num_return_sequences": 3}, {"n_best": 3}),
        ({"do_sample": True, "temperature": 0.7, "top_p": 0.9},
         {"sample": True, "temperature": 0.7, "top_k": 50, "top_p": 0.9}),
        ({"early_stopping": "never", "length_penalty": 0.3}, {"early_stopping": "never", "length_penalty": 0.3}),
    ],
)  # fmt: skip
def test_a_setting_with_the_same_formula_comes_in(theirs, ours, tmp_path):
    found, notes = decode(tmp_path, **theirs)
    assert {name: getattr(found, name) for name in ours} == ours
    assert notes == []


@pytest.mark.parametrize(
    ("name", "value", "others"),
    [
        ("num_beam_groups", 3, {"num_beams": 3}), ("encoder_no_repeat_ngram_size", 2, {}),
        ("forced_bos_token_id", 7, {}), ("suppress_tokens", [5], {}), ("bad_words_ids", [[174], [9]], {}),
        ("forced_eos_token_id", 9, {}), ("repetition_penalty", 2.0, {"num_beams": 1}),
        ("repetition_penalty", 0.5, {"num_beams": 4}), ("do_sample", True, {"num_beams": 4}),
    ],
)  # fmt: skip
def test_a_setting_without_an_equal_is_named(name, value, others, tmp_path):
    _, notes = decode(tmp_path, **{name: value}, **others)
    assert f"generation_config.json: not taken over: {name} = {value!r}" in notes[0]


@pytest.mark.parametrize(
    "wrong",
    [{"num_beams": "x"}, {"num_beams": 1.5}, {"length_penalty": []}, {"early_stopping": [1]}, {"do_sample": 1},
     {"max_length": {}}, {"repetition_penalty": "x"}],
)  # fmt: skip
def test_a_value_of_another_type_is_named(wrong, tmp_path):
    with pytest.raises(ConfigError, match=rf"generation_config.json: {next(iter(wrong))}: found .*, expected"):
        decode(tmp_path, **wrong)


def test_a_search_goes_out_and_comes_back(tmp_path):
    options = DecodeConfig(
        beam=4, n_best=2, length_norm="power", early_stopping="never", min_length=10, repetition_penalty=3.0,
        no_repeat_ngram=2, max_length_a=0, max_length_b=20,
    )  # fmt: skip
    assert search_notes(options) == []
    assert decode(tmp_path, **search_settings(options, ModelConfig(), 0))[0] == options
    sampled = replace(options, beam=1, sample=True, top_k=7, temperature=0.5, repetition_penalty=1.0)
    assert search_notes(sampled) == []
    assert decode(tmp_path, **search_settings(sampled, ModelConfig(), 0))[0] == sampled


@pytest.mark.parametrize(
    "changes",
    [{"coverage_penalty": 1.0}, {"max_length_a": 1.5}, {"split_sentences": True},
     {"repetition_penalty": 2.0, "beam": 1}, {"mbr": 4, "sample": True}],
)  # fmt: skip
def test_what_does_not_go_out_is_named(changes):
    name, value = next(iter(changes.items()))
    notes = search_notes(DecodeConfig(**{"max_length_a": 0.0, **changes}))
    assert notes == [f"Not written, because Hugging Face does not have it: decode.{name} = {value!r}."]


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [{"repetition_penalty": 1.7, "min_length": 9, "no_repeat_ngram_size": 2}, {"min_new_tokens": 12},
     {"repetition_penalty": 3.0, "num_return_sequences": 2}],
)  # fmt: skip
def test_the_outputs_are_those_of_generate(changes, tmp_path):
    write_marian(tmp_path)
    path, texts = tmp_path / "generation_config.json", sentences(20, 9)
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    tokenizer = transformers.MarianTokenizer.from_pretrained(tmp_path)
    model = transformers.MarianMTModel.from_pretrained(tmp_path)
    made = model.generate(**tokenizer(texts, return_tensors="pt", padding=True), forced_eos_token_id=None)
    imported = import_transformers(tmp_path)
    translator = Translator(imported.model(), *imported.tokenizers, imported.config.decode)
    found = [one.text for text in translator.translate(texts) for one in text.hypotheses]
    assert found == tokenizer.batch_decode(made, skip_special_tokens=True)


def change(directory: Path, **values):
    path = directory / "generation_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def test_targets_start_with_the_id_that_generate_obeys(tmp_path):
    write_run(tmp_path / "run", norm="post")
    export_transformers(load_run(tmp_path / "run", "cpu"), tmp_path / "out")
    assert import_transformers(tmp_path / "out").source["starts_with"] == "<s>"
    change(tmp_path / "out", decoder_start_token_id=2)
    imported = import_transformers(tmp_path / "out")
    assert imported.source["starts_with"] == "</s>"
    assert "decoder_start_token_id = 2 is taken, as in generate(), and not the 1 of config.json" in imported.notes[0]
    table = imported.weights["src_embedding.tokens.weight"]
    assert table[1].equal(table[2])
    change(tmp_path / "out", eos_token_id=[2], decoder_start_token_id=1)
    again = import_transformers(tmp_path / "out")
    assert (again.source["starts_with"], list(again.notes)) == ("<s>", [])
    for wrong in ({"eos_token_id": 5}, {"eos_token_id": [2, 5]}, {"decoder_start_token_id": 7}):
        change(tmp_path / "out", **{"eos_token_id": 2, "decoder_start_token_id": 1, **wrong})
        with pytest.raises(GlassformerError, match=r"(eos|start).*: found (5|7|\[2, 5\]), expected"):
            import_transformers(tmp_path / "out")


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (
            {"decoder_start_token_id": 5},
            TokenizerError,
            "vocab.json: start: found id 5, which the vocabulary has for",
        ),
        ({"pad_token_id": 5}, TokenizerError, "vocab.json: pad: found id 5, which the vocabulary has for"),
        ({"eos_token_id": 5}, TokenizerError, "vocab.json: eos: found id 5, which the vocabulary has for"),
        ({"eos_token_id": [0, 5]}, CheckpointError, r"generation_config.json: eos: found \[0, 5\]"),
        ({"decoder_start_token_id": [[1]]}, CheckpointError, r"generation_config.json: start: found \[1\]"),
    ],
)
def test_ids_of_pieces_are_no_control_tokens(wrong, error, message, tmp_path):
    write_marian(tmp_path)
    change(tmp_path, **wrong)
    with pytest.raises(error, match=message):
        import_transformers(tmp_path)


def test_the_commands_print_the_notes(tmp_path):
    write_marian(tmp_path / "theirs")
    change(tmp_path / "theirs", num_beam_groups=3)
    done = CliRunner().invoke(app, ["import", str(tmp_path / "theirs"), "--run", str(tmp_path / "run")])
    assert "not taken over: num_beam_groups = 3" in done.output
    path = tmp_path / "run/config.json"
    settings = json.loads(path.read_text())
    settings["config"]["decode"]["coverage_penalty"] = 1.0
    path.write_text(json.dumps(settings))
    done = CliRunner().invoke(
        app, ["export", str(tmp_path / "run"), "--to", "transformers", "--out", str(tmp_path / "out")]
    )
    assert "decode.coverage_penalty = 1.0" in done.output
