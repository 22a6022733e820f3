"""A MarianMT directory becomes a run like any other, with the logits and the texts of Hugging Face."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from interop.random_marian import joint_vocabulary, sentencepiece, sentences, spm_bytes, transformers, write_marian
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from glassformer.cli.main import app
from glassformer.decoding import Translator
from glassformer.errors import CheckpointError, ConfigError, RunError, TokenizerError
from glassformer.explain.verify import prove
from glassformer.explain.walks import WalkRequest
from glassformer.interop.programs import read_model
from glassformer.interop.transformers import import_transformers
from glassformer.run_directory import load_run
from glassformer.settings import DecodeConfig

TEXTS = sentences(6, 5)


def largest_gap(theirs: Any, directory: Path, size: int = 0) -> float:
    """The largest difference of log-probabilities, of entries that both have, over some random targets."""
    imported = import_transformers(directory)
    ours, entries = imported.model(), joint_vocabulary(size)
    names = imported.tokenizers[0].entries()
    there = {**{name: at for at, name in enumerate(entries)}, "<s>": theirs.config.decoder_start_token_id}
    ids = [
        there.get(name.removeprefix(" ").removeprefix("▁") if ">>" in name else name.removeprefix(" "), 1)
        for name in names
    ]
    common = [at for at, name in enumerate(names) if at != 1 and at < len(entries) + 1]
    src = torch.randint(4, len(names), (3, 9))
    tgt = torch.randint(4, len(entries), (3, 7))
    tgt[:, 0] = 1
    table = torch.tensor(ids)
    with torch.no_grad():
        expected = theirs(input_ids=table[src], decoder_input_ids=table[tgt]).logits.log_softmax(-1)
        found = ours(src, tgt).log_softmax(-1)
    wanted = expected[..., table[common]]
    return float(((found[..., common] - wanted).abs() / (1 + wanted.abs().max())).max())


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"activation_function": "relu", "scale_embedding": False},
        {"activation_function": "gelu", "share_encoder_decoder_embeddings": False},
        {"share_encoder_decoder_embeddings": False, "tie_word_embeddings": False},
        {"decoder_start_token_id": 0},
    ],
)  # fmt: skip
def test_the_log_probabilities_are_those_of_hugging_face(changes, tmp_path):
    model = write_marian(tmp_path, **changes)
    assert largest_gap(model, tmp_path) < 1e-4


@pytest.mark.slow
def test_ids_and_texts_are_those_of_sentencepiece(tmp_path):
    write_marian(tmp_path)
    src, tgt = import_transformers(tmp_path).tokenizers
    there = transformers.MarianTokenizer.from_pretrained(tmp_path)
    entries = {entry: at for at, entry in enumerate(joint_vocabulary())}
    for text in [*sentences(200, 6), "", "  a  b ", "日本 ok", ">>deu<< Bado ki", "½ ﬁ"]:
        labels = [name.removeprefix(" ") for name in (src.entries()[number] for number in src.to_ids(text))]
        labels = [label.removeprefix("▁") if ">>" in label else label for label in labels]
        assert [entries.get(label, 1) for label in labels] == there(text)["input_ids"][:-1], text
        targets = there(text_target=text)["input_ids"][:-1]
        if 1 not in targets and ">>" not in text:
            assert tgt.to_text(tgt.to_ids(text)) == there.decode(targets, skip_special_tokens=True)


def test_an_import_is_a_run_like_any_other(tmp_path):
    write_marian(tmp_path / "theirs")
    done = CliRunner().invoke(app, ["import", str(tmp_path / "theirs"), "--run", str(tmp_path / "run")])
    assert done.exit_code == 0, done.output
    assert "MarianMTModel, post-norm" in done.output
    translator = Translator.load(tmp_path / "run", engine="torch")
    assert translator.config.beam == 3
    assert (translator.config.length_norm, translator.config.early_stopping) == ("power", "heuristic")
    found = translator.translate(TEXTS)
    for batch in (translator.translate(TEXTS[:1]), translator.score_tokens(TEXTS[:1], ["Bado ki."])):
        assert batch
    assert [one.text for one in found] == [translator.translate([text])[0].text for text in TEXTS]
    made = WalkRequest(
        run=tmp_path / "run", sources=TEXTS[:1], targets=["Bado ki."], generate=False, training=False, verify=True,
        options={}, edits=[], only="*", device="cpu",
    ).make()  # fmt: skip
    assert prove(made.walk, made.walk.translator.model).holds


def test_a_run_is_not_written_over(tmp_path):
    write_marian(tmp_path)
    imported = import_transformers(tmp_path)
    with pytest.raises(RunError, match="is not empty, expected a new directory"):
        imported.write(tmp_path)


@pytest.mark.slow
def test_the_translations_are_those_of_generate(tmp_path):
    """With random weights every hypothesis is about as probable as the others: what differs would show."""
    model = write_marian(tmp_path)
    tokenizer = transformers.MarianTokenizer.from_pretrained(tmp_path)
    imported = import_transformers(tmp_path)
    translator = Translator(imported.model(), *imported.tokenizers, imported.config.decode)
    texts = sentences(60, 9)
    for options, theirs in (
        (imported.config.decode, {}),
        (DecodeConfig(beam=4, length_norm="power", length_penalty=1.3, early_stopping="beam", max_length_a=0, max_length_b=20),
         {"num_beams": 4, "length_penalty": 1.3, "early_stopping": True}),
        (DecodeConfig(beam=2, length_norm="power", length_penalty=0.5, early_stopping="never", max_length_a=0, max_length_b=20),
         {"num_beams": 2, "length_penalty": 0.5, "early_stopping": "never"}),
    ):  # fmt: skip
        made = model.generate(
            **tokenizer(texts, return_tensors="pt", padding=True), forced_eos_token_id=None, **theirs
        )
        expected = tokenizer.batch_decode(made, skip_special_tokens=True)
        found = translator.translate(texts, options)
        same = [
            one.text == wanted or one.hypotheses[0].truncated for one, wanted in zip(found, expected, strict=True)
        ]
        assert sum(same) >= len(texts) - 1


@pytest.mark.slow
def test_pickled_weights_are_refused_with_the_command_that_converts_them(tmp_path):
    model = write_marian(tmp_path)
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(RunError, match="would be unpickled") as caught:
        read_model(str(tmp_path), print)
    command = shlex.split(re.search(r"python -c .*", str(caught.value))[0])
    subprocess.run([sys.executable, *command[1:]], check=True, capture_output=True)
    assert largest_gap(model, tmp_path) < 1e-4


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"architectures": ["BartForConditionalGeneration"]}, ConfigError, "architectures: found 'BartFor"),
        ({"activation_function": "tanh"}, ConfigError, "activation_function: found 'tanh'"),
        ({"decoder_ffn_dim": 7}, ConfigError, "decoder_ffn_dim: found 7, expected 31"),
        ({"normalize_embedding": True}, ConfigError, "normalize_embedding: found True"),
        ({"encoder_layers": 3}, CheckpointError, "has no weight for encoder.layers.2"),
        ({"decoder_start_token_id": 100_000}, CheckpointError, "start: found 100000, expected an id"),
        ({"architectures": 1}, ConfigError, "architectures: found 1, expected MarianMTModel or"),
        ({"activation_function": []}, ConfigError, r"activation_function: found \[\], expected one of"),
        ({"scale_embedding": "x"}, ConfigError, "scale_embedding: found 'x', expected true or false"),
        ({"tie_word_embeddings": 1}, ConfigError, "tie_word_embeddings: found 1, expected true or false"),
        ({"tie_word_embeddings": False}, CheckpointError, "has no lm_head.weight, expected one: tie_word_embeddings"),
        *(({"vocab_size": size}, ConfigError, f"vocab_size: found {re.escape(repr(size))}, expected 175, the rows")
          for size in (-1, 0, [], {}, True, "x", 1.5, [1], 350, 10**9)),
        ({"decoder_vocab_size": "x"}, ConfigError, "decoder_vocab_size: found 'x', expected 175"),
        ({"dropout": 3.0}, ConfigError, "as a run's settings: model.dropout: found 3.0"),
    ],
)  # fmt: skip
def test_what_cannot_be_ours_is_named(change, error, message, tmp_path):
    write_marian(tmp_path)
    settings = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**settings, **change}))
    with pytest.raises(error, match=message):
        import_transformers(tmp_path)


SHARED, BIAS = "model.shared.weight", "final_logits_bias"
ENCODER, DECODER = (f"model.{side}.embed_tokens.weight" for side in ("encoder", "decoder"))
FC1, LAST = "model.encoder.layers.0.fc1.weight", "model.encoder.embed_positions.weight"


@pytest.mark.parametrize(
    ("name", "edit", "message"),
    [
        (ENCODER, lambda w: w[SHARED] + 1, f"is true, but {ENCODER}"),
        (DECODER, lambda w: w[SHARED] + 1, f"is true, but {DECODER}"),
        ("lm_head.weight", lambda w: w[SHARED] + 1, "tie_word_embeddings is true, but lm_head.weight is another"),
        (SHARED, lambda w: w[SHARED].repeat(2, 1), "vocab_size: found 175, expected 350, the rows of the embedding"),
        (SHARED, lambda w: w[SHARED][:, 0], "found the shape .175,., expected a matrix"),
        (BIAS, lambda w: torch.zeros(1, 300), r"final_logits_bias: found the shape \(1, 300\), expected \(1, 175\)"),
        (BIAS, lambda w: torch.zeros(2, 175), r"final_logits_bias: found the shape \(2, 175\)"),
        (BIAS, lambda w: torch.zeros(0, 175), r"final_logits_bias: found the shape \(0, 175\)"),
        (BIAS, lambda w: torch.tensor(1.0), r"final_logits_bias: found the shape \(\)"),
        (FC1, lambda w: w[FC1].to(torch.int8), "fc1.weight: found numbers of type int8, expected float16"),
        (FC1, lambda w: w[FC1] > 0, "fc1.weight: found numbers of type bool"),
        (FC1, lambda w: w[FC1].to(torch.complex64), "fc1.weight: found numbers of type complex64"),
        (LAST, lambda w: torch.zeros(5), "embed_positions.weight: found another table"),
        (LAST, lambda w: torch.zeros(5, 3), "embed_positions.weight: found another table"),
    ],
)
def test_weights_that_cannot_be_ours_are_named(name, edit, message, tmp_path):
    write_marian(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    save_file({**weights, name: edit(weights).contiguous()}, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises((CheckpointError, ConfigError), match=message):
        import_transformers(tmp_path)


# What a published model also says, and what changes nothing.
HARMLESS = {
    "_num_labels": 3, "add_bias_logits": False, "add_final_layer_norm": False, "bad_words_ids": [[174]],
    "bos_token_id": 0, "classif_dropout": 0.0, "extra_pos_embeddings": 175, "id2label": {"0": "LABEL_0"},
    "max_length": 512, "normalize_before": False, "normalize_embedding": False, "num_beams": 6,
    "static_position_embeddings": True, "decoder_vocab_size": None,
}  # fmt: skip


def test_equal_copies_of_one_matrix_half_precision_and_harmless_settings_come_in(tmp_path):
    model = write_marian(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **HARMLESS}))
    weights = load_file(tmp_path / "model.safetensors")
    sides = (ENCODER, DECODER, "lm_head.weight")
    copies = {name: value.bfloat16() for name, value in weights.items()}
    copies |= {name: copies[SHARED].clone() for name in sides}
    copies[LAST] = model.model.encoder.embed_positions.weight.detach().bfloat16()
    save_file(copies, tmp_path / "model.safetensors", {"format": "pt"})
    imported = import_transformers(tmp_path)
    assert imported.config.model.tie_embeddings == "all"
    assert imported.notes == []


@pytest.mark.parametrize(
    ("file", "size", "message"),
    [
        ("vocab.json", 174, ""),
        ("vocab.json", 100, "vocab.json: has 100 entries, expected 175, one for each row of the embedding"),
        ("vocab.json", 20, "vocab.json: has 20 entries"),
        ("target_vocab.json", 1, "target_vocab.json: has 1 entries"),
    ],
)
def test_only_a_few_rows_may_have_no_entry(file, size, message, tmp_path):
    write_marian(tmp_path)
    (tmp_path / file).write_text(json.dumps({entry: at for at, entry in enumerate(joint_vocabulary()[:size])}))
    if not message:  # the padding's row is the last
        assert import_transformers(tmp_path).config.model.src_vocab == 176
        return
    with pytest.raises(TokenizerError, match=message):
        import_transformers(tmp_path)


def test_the_entries_of_a_target_have_their_parts(tmp_path):
    write_marian(tmp_path)
    (tmp_path / "target_vocab.json").write_text(json.dumps({f"a{at}": at for at in range(175)}))
    with pytest.raises(TokenizerError, match=r"target_vocab.json: .*found id .*, which the vocabulary has for 'a"):
        import_transformers(tmp_path)


def test_an_entry_with_half_a_character_is_named(tmp_path):
    write_marian(tmp_path)
    entries = {("\ud800x" if at == 10 else entry): at for at, entry in enumerate(joint_vocabulary())}
    (tmp_path / "vocab.json").write_text(json.dumps(entries))
    with pytest.raises(TokenizerError, match=r"vocab\.json: the entry '\\ud800x' holds half a character"):
        import_transformers(tmp_path)


def test_missing_and_damaged_files_are_named(tmp_path):
    write_marian(tmp_path / "whole")
    for name, error, message in (
        ("vocab.json", TokenizerError, "has no vocab.json"),
        ("source.spm", TokenizerError, "has no source.spm"),
        ("model.safetensors", RunError, "has no model.safetensors"),
    ):
        place = tmp_path / name
        shutil.copytree(tmp_path / "whole", place)
        (place / name).unlink()
        with pytest.raises(error, match=message):
            import_transformers(place)
    for name, message in (("source.spm", "is not a SentencePiece model"), ("model.safetensors", "cannot be read")):
        place = tmp_path / f"cut-{name}"
        shutil.copytree(tmp_path / "whole", place)
        (place / name).write_bytes((place / name).read_bytes()[:-1000])
        with pytest.raises((TokenizerError, CheckpointError), match=message):
            import_transformers(place)


def test_what_is_no_model_of_another_program_is_said(tmp_path):
    with pytest.raises(RunError, match="is no model that can be read"):
        read_model(str(tmp_path), print)
    with pytest.raises(RunError, match="there is no such file or directory"):
        read_model(str(tmp_path / "nowhere"), print)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(RunError, match="is no model that can be read"):
        read_model(str(tmp_path), print)
    (tmp_path / "model.bin").write_bytes(b"")
    with pytest.raises(RunError, match="is made for CTranslate2, and cannot be imported"):
        read_model(str(tmp_path), print)
    write_marian(tmp_path / "theirs")
    import_transformers(tmp_path / "theirs").write(tmp_path / "run")
    with pytest.raises(RunError, match="is a run of glassformer already"):
        read_model(str(tmp_path / "run"), print)


def test_a_name_on_the_hub_needs_the_network(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(RunError, match="is no directory, and"):
        read_model("Helsinki-NLP/no-such-model", lambda line: None)


def test_the_network_is_named_before_it_is_asked(monkeypatch):
    said: list[str] = []

    def ask(name, report):
        assert said, "nothing was said before"
        raise RunError(f"asked for {name}")

    monkeypatch.setattr("glassformer.interop.programs.download", ask)
    for source, here in (("a/b", "a/b: there is no such file or directory here; "), ("hf:a/b", "")):
        said.clear()
        with pytest.raises(RunError, match=r"^asked for a/b$"):
            read_model(source, said.append)
        assert said == [f"{here}asking huggingface.co for the model hf:a/b ..."]
    for source in ("hf:a", "hf:", "hf:a/b/c", "hf:../b", "a/b?c", "/a/b", "./b"):
        with pytest.raises(RunError, match="no such file or directory, and it is no name on the hub"):
            read_model(source, said.append)


def test_other_kinds_of_sentencepiece_models_are_refused(tmp_path):
    from glassformer.text.tokenizer.sentencepiece import SentencePieceModel

    model = tmp_path / "m"
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences(300, 3)),
        model_prefix=str(model),
        vocab_size=90,
        model_type="bpe",
        minloglevel=2,
    )
    with pytest.raises(TokenizerError, match="of type 'bpe', expected 'unigram'"):
        SentencePieceModel.read(tmp_path / "m.model")
    with pytest.raises(TokenizerError, match="is not a SentencePiece model"):
        SentencePieceModel.from_bytes(spm_bytes(1)[:77])


def test_an_import_can_be_read_as_one_checkpoint(tmp_path):
    write_marian(tmp_path / "theirs")
    import_transformers(tmp_path / "theirs").write(tmp_path / "run")
    assert load_run(tmp_path / "run/final/update-00000000", "cpu").config.model.norm == "post"


def test_languages_come_from_the_tokenizer_s_settings_or_from_the_command(tmp_path):
    write_marian(tmp_path / "hf")
    assert import_transformers(tmp_path / "hf").config.languages == ("en", "de")  # there eng, deu
    (tmp_path / "hf" / "tokenizer_config.json").unlink()
    assert import_transformers(tmp_path / "hf").config.languages is None
    run = tmp_path / "run"
    done = CliRunner().invoke(app, ["import", str(tmp_path / "hf"), "--run", str(run), "--langs", "en-fr"])
    assert done.exit_code == 0, done.output
    with Translator.load(run) as translator:
        assert translator.languages == ("en", "fr")
        assert translator.config.src_language == "en"
