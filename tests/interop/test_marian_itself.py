"""Models that Marian trained, beside its own answers; with MARIAN=PYMARIAN (``make marian``) Marian is asked itself."""

import os
import random
import subprocess
from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import torch
from interop.make_marian_models import BEST, FIRST, SEARCHES, SSRU, answers
from typer.testing import CliRunner

from glassformer.cli.main import app
from glassformer.decoding.translator import Translator
from glassformer.errors import GlassformerError
from glassformer.interop.imported_model import ImportedModel
from glassformer.interop.marian.export import export_marian
from glassformer.interop.marian.model_file import read_model_file
from glassformer.interop.marian.release import import_marian
from glassformer.interop.shortlist import read_shortlist
from glassformer.run_directory import load_run
from glassformer.text.tokenizer.tokenizer import BOS_ID, EOS_ID, UNK_ID

MODELS = Path(__file__).parent / "marian_models"
KINDS = sorted(place.name for place in MODELS.iterdir())
OPTIONS = {
    "greedy": {"beam": 1, "length_penalty": 0.0},
    "beam6": {"beam": 6, "length_penalty": 0.6, "word_penalty": 0.2},
}
PLAIN = {"keep_codes": False, "copy_wordless": False}
MARIAN = os.environ.get("MARIAN", "")

pytest.importorskip("yaml")


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:40]


def translator(imported: ImportedModel) -> Translator:
    return Translator(imported.model(), *imported.tokenizers, imported.config.decode)


def outputs(found: Translator, place: Path, name: str) -> list[str]:
    options = replace(found.config, **OPTIONS[name], **PLAIN)
    return [one.text.strip() for one in found.translate(lines(place / "test.en"), options)]


@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_those_of_marian(kind):
    place = MODELS / kind
    found = translator(import_marian(place)).score(lines(place / "test.en"), lines(place / "test.de"))
    assert found == pytest.approx(list(map(float, lines(place / "scores"))), abs=5e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SEARCHES)
def test_outputs_are_those_of_marian(kind, name):
    place = MODELS / kind
    assert outputs(translator(import_marian(place)), place, name) == [one.strip() for one in lines(place / name)]


def test_int8_differs_from_marians_int8_no_more_than_that_from_float32():
    place = MODELS / "ssru"
    found = translator(import_marian(place / "model.int8.bin"))
    theirs = [one.strip() for one in lines(place / "int8.greedy")]
    whole = [one.strip() for one in lines(place / "greedy")]
    ours = outputs(found, place, "greedy")
    assert sum(map(str.__ne__, ours, theirs)) <= max(1, sum(map(str.__ne__, theirs, whole)))


def test_a_file_alone_needs_its_vocabularies(tmp_path):
    (tmp_path / "model.npz").write_bytes((MODELS / "spm/model.npz").read_bytes())
    with pytest.raises(GlassformerError, match=r"stands beside no decoder.yml, .* Add --vocab FILE"):
        import_marian(tmp_path / "model.npz")
    found = import_marian(tmp_path / "model.npz", vocab=[MODELS / "spm/vocab.spm"])
    assert found.config.model == import_marian(MODELS / "spm").config.model


def test_the_papers_sinusoids_give_other_scores():
    place = MODELS / "spm"
    pairs = lines(place / "test.en"), lines(place / "test.de")
    own, others = (translator(import_marian(place, positions=name)).score(*pairs) for name in ("marian", "paper"))
    assert max(abs(one - other) for one, other in zip(own, others, strict=True)) > 0.01


@pytest.mark.parametrize("name", ["ssru/model.int8.bin", "ssru/model.npz", "ssru/vocab.spm"])
def test_a_damaged_file_is_refused_in_words(name, tmp_path):
    chance = random.Random(1)
    for path in (MODELS / "ssru").iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    target = tmp_path / Path(name).name
    data = target.read_bytes()
    for number in range(60):
        damaged = bytearray(data[: chance.randrange(len(data))] if number % 3 == 0 else data)
        for _ in range(1 + number % 5):
            damaged[chance.randrange(max(1, min(len(damaged), 4000)))] ^= chance.randrange(1, 256)
        target.write_bytes(damaged)
        try:
            import_marian(target if target.suffix != ".spm" else tmp_path / "model.npz")
        except GlassformerError as error:
            assert str(tmp_path) in str(error), error  # noqa: PT017  # which file


@pytest.mark.parametrize("kind", [0x10002, 0x11001, 0x18001, 0x1801])
def test_packed_kinds_are_named(kind, tmp_path):
    data = bytearray((MODELS / "ssru/model.int8.bin").read_bytes())
    at = next(
        place for place in range(16, 4000, 32) if data[place + 8 : place + 16] == (0x10001).to_bytes(8, "little")
    )
    data[at + 8 : at + 16] = kind.to_bytes(8, "little")
    (tmp_path / "model.bin").write_bytes(data)
    with pytest.raises(GlassformerError, match=r"found the type .*, expected float32 or intgemm8"):
        read_model_file(tmp_path / "model.bin")


def write_run(kind: str, directory: Path) -> Path:
    import_marian(MODELS / kind).write(directory / "run")
    return directory / "run"


@pytest.mark.parametrize("kind", KINDS)
def test_an_export_comes_in_with_the_same_answers(kind, tmp_path):
    run, place = load_run(write_run(kind, tmp_path), "cpu"), MODELS / kind
    assert export_marian(run, tmp_path / "out") == []
    again = translator(import_marian(tmp_path / "out"))
    found = again.score(lines(place / "test.en"), lines(place / "test.de"))
    assert found == pytest.approx(list(map(float, lines(place / "scores"))), abs=1e-4)
    assert outputs(again, place, "beam6") == [one.strip() for one in lines(place / "beam6")]


def test_a_start_that_is_not_zero_is_folded_into_biases(tmp_path):
    run, place = load_run(write_run("spm", tmp_path), "cpu"), MODELS / "spm"
    run.model.tgt_embedding.tokens.weight.data[1] = run.model.tgt_embedding.tokens.weight.data[50]
    src, tgt = lines(place / "test.en"), lines(place / "test.de")
    expected = Translator(run.model, run.src_tokenizer, run.tgt_tokenizer, run.config.decode).score(src, tgt)
    export_marian(run, tmp_path / "out")
    assert translator(import_marian(tmp_path / "out")).score(src, tgt) == pytest.approx(expected, abs=1e-3)
    assert not np.isclose(expected, list(map(float, lines(place / "scores"))), atol=0.01).all()


@pytest.mark.skipif(not MARIAN, reason="asks Marian itself: make marian")
@pytest.mark.parametrize("kind", KINDS)
def test_marian_answers_an_export_as_it_answered_its_own_model(kind, tmp_path):
    export_marian(load_run(write_run(kind, tmp_path), "cpu"), tmp_path / "out")
    place, out = MODELS / kind, tmp_path / "out"
    vocabs = sorted(path for path in out.iterdir() if "vocab" in path.name)
    data = [place / "test.en", place / "test.de"]
    found = answers(MARIAN, out / "model.npz", [vocabs[0], vocabs[-1]], data)
    assert [float(one) for one in found["scores"].split()] == pytest.approx(
        list(map(float, lines(place / "scores"))), abs=1e-4
    )
    for name in SEARCHES:
        assert found[name].split("\n")[:40] == lines(place / name)


@pytest.mark.skipif(not MARIAN, reason="asks Marian itself: make marian")
def test_marian_goes_on_training_an_export(tmp_path):
    export_marian(load_run(write_run("ssru", tmp_path), "cpu"), tmp_path / "out")
    place, vocab = MODELS / "ssru", str(tmp_path / "out/vocab.spm")
    options = (
        f"{SSRU} --type transformer --enc-depth 2 --dec-depth 1 --transformer-dim-ffn 64 --transformer-heads 2 "
        "--cpu-threads 1 -w 300 --mini-batch 8 --after-batches 3 --disp-freq 1"
    )
    files = ["-t", str(place / "test.en"), str(place / "test.de"), "-m", str(tmp_path / "more.npz")]
    begin = ["--pretrained-model", str(tmp_path / "out/model.npz"), "--vocabs", vocab, vocab]
    done = subprocess.run(
        [MARIAN, "train", *options.split(), *files, *begin], capture_output=True, text=True, check=True
    )
    costs = [float(line.split("Cost ")[1].split()[0]) for line in done.stderr.splitlines() if "Cost " in line]
    assert len(costs) == 3
    assert costs[0] < 4.5  # it begins where the model was; a new one costs log 302 = 5.7


def greedy_within(imported: ImportedModel, line: str, *, fills: bool) -> str:
    """Greedy search among the candidates of a line; Marian ``fills`` them up to a multiple of 8 with further entries."""
    (src, tgt), model, shortlist = imported.tokenizers, imported.model(), imported.shortlist
    ids = [*src.to_ids(line), EOS_ID]
    allowed = {EOS_ID, *shortlist.frequent, *(one for each in ids for one in shortlist.candidates.get(each, ()))}
    further = count(FIRST + 2)  # our ids of pieces are two higher than Marian's
    while fills and len(allowed) % 8:
        allowed.add(next(further))
    written: list[int] = []
    with torch.no_grad():
        memory, mask = model.encode(torch.tensor([ids]))
        while len(written) < 3 * len(ids) and written[-1:] != [EOS_ID]:
            logits = model.decode(torch.tensor([[BOS_ID, *written]]), memory, mask)[0, -1]
            written.append(max(allowed - {UNK_ID}, key=lambda number: float(logits[number])))
    return tgt.to_text([number for number in written if number != EOS_ID]).strip()


@pytest.mark.parametrize("name", ["lex.s2t.gz", "lex.s2t.bin"])
def test_a_shortlist_of_either_kind_comes_with_the_model(name, tmp_path):
    place = MODELS / "ssru"
    (tmp_path / "decoder.yml").write_text(
        f"models: [model.npz]\nvocabs: [vocab.spm, vocab.spm]\nshortlist: [{name}, {FIRST}, {BEST}, 0]\n"
    )
    for file in ("model.npz", "vocab.spm", name):
        (tmp_path / file).write_bytes((place / file).read_bytes())
    found = import_marian(tmp_path)
    assert "CTranslate2, which has no SSRU" in found.notes[0]
    found.write(tmp_path / "run")
    assert read_shortlist(load_run(tmp_path / "run", "cpu")) == found.shortlist
    assert len(found.shortlist.frequent) == FIRST
    assert max(map(len, found.shortlist.candidates.values())) == BEST + 1  # and the token itself
    greedy, shortened = (lines(place / name) for name in ("greedy", "shortlist.greedy"))
    assert greedy != shortened
    ours = [greedy_within(found, line, fills=True) for line in lines(place / "test.en")]
    assert ours == [one.strip() for one in shortened]


def test_a_student_as_a_browser_has_it_is_walked_and_proven(tmp_path):
    place, files = MODELS / "ssru", ["--vocab", str(MODELS / "ssru/vocab.spm")]
    files += ["--shortlist", str(place / "lex.s2t.bin"), "--run", str(tmp_path / "run")]
    done = CliRunner().invoke(app, ["import", str(place / "model.int8.bin"), *files])
    assert done.exit_code == 0, done.output
    assert "CTranslate2, which has no SSRU" in done.stderr
    done = CliRunner().invoke(app, ["trace", "51 cubic meters", "--run", str(tmp_path / "run"), "--verify"])
    assert done.exit_code == 0, done.output
    assert "All checks passed." in done.output


def test_with_its_shortlist_a_model_runs_in_ctranslate2(tmp_path):
    pytest.importorskip("ctranslate2", reason="CTranslate2 is an extra: pip install '.[fast]'")
    place = MODELS / "spm"
    imported = import_marian(place, shortlist=place / "lex.s2t.bin")
    imported.write(tmp_path / "run")
    expected = [greedy_within(imported, line, fills=False) for line in lines(place / "test.en")]
    with Translator.load(tmp_path / "run", engine="ctranslate2", workers=1, shortlist=True) as found:
        options = replace(
            found.config, **OPTIONS["greedy"], **PLAIN, early_stopping="beam", word_penalty=0.0, allow_unk=True
        )
        assert [found.translate([line], options)[0].text.strip() for line in lines(place / "test.en")] == expected


@pytest.mark.parametrize(
    "given",
    ["lex.s2t.gz", "{a: 1}", "7", "[7]", "[lex.s2t.gz, x]", "[lex.s2t.gz, null]", "[lex.s2t.gz, .inf]", "[none.gz]"],
)
def test_an_odd_shortlist_in_decoder_yml_is_refused_in_words(given, tmp_path):
    (tmp_path / "decoder.yml").write_text(f"models: [model.npz]\nvocabs: [vocab.spm]\nshortlist: {given}\n")
    for file in ("model.npz", "vocab.spm", "lex.s2t.gz"):
        (tmp_path / file).write_bytes((MODELS / "spm" / file).read_bytes())
    with pytest.raises(GlassformerError, match=r"shortlist"):
        import_marian(tmp_path)


@pytest.mark.parametrize("name", ["lex.s2t.gz", "lex.s2t.bin"])
def test_a_damaged_shortlist_is_refused_in_words(name, tmp_path):
    chance, data = random.Random(2), (MODELS / "spm" / name).read_bytes()
    target = tmp_path / name
    for number in range(40):
        damaged = bytearray(data[: chance.randrange(len(data))] if number % 3 == 0 else data)
        for _ in range(number % 4):
            damaged[chance.randrange(max(1, min(len(damaged), 600)))] ^= chance.randrange(1, 256)
        target.write_bytes(damaged)
        try:
            import_marian(MODELS / "spm", shortlist=target)
        except GlassformerError as error:
            assert str(target) in str(error), error  # noqa: PT017  # which file
