"""A lexical shortlist: which tokens it has, by IBM Model 1 written plainly, and that outputs hold no others."""

import json
import shutil
from collections import defaultdict
from itertools import product
from random import Random

import pytest
from typer.testing import CliRunner

from glassformer import DecodeConfig, Translator
from glassformer.bundled import BUNDLED
from glassformer.cli.main import app
from glassformer.decoding import Request
from glassformer.errors import CheckpointError, ConfigError, RunError, StorageError, TextError
from glassformer.interop import shortlist
from glassformer.interop.shortlist import Shortlist, make_shortlist, read_shortlist, translation_table
from glassformer.run_directory import RunDirectory, load_run
from glassformer.text import Tokenizer
from glassformer.text.corpus.corpus import Pair
from glassformer.text.corpus.dataset import EncodedSide, EncodedTexts, Sides

PAIRS = [
    Pair("I love you, too.", "Ich liebe dich auch."), Pair("I love music.", "Ich liebe Musik."),
    Pair("The house is old.", "Das Haus ist alt."), Pair("The house is big.", "Das Haus ist groß."),
    Pair("My house", "Mein Haus"), Pair("", "nichts"), Pair("We have no time.", "Wir haben keine Zeit."),
]  # fmt: skip
TEXTS = ["I love you, too.", "The house is old.", "We have no time.", "Zyx Qwrt is big."]


def encode(rows: list[tuple[list[int], list[int]]], vocab: int) -> Sides:
    src, tgt = zip(*rows, strict=True)
    return Sides(EncodedSide(EncodedTexts.from_lists(src, vocab)), EncodedSide(EncodedTexts.from_lists(tgt, vocab)))


def plain_model_1(rows: list[tuple[list[int], list[int]]], rounds: int) -> dict[tuple[int, int], float]:
    """t(target | source) as the textbooks have it, a token at a time."""
    t = dict.fromkeys((pair for src, tgt in rows for pair in product(src, tgt)), 1.0)
    for _ in range(rounds):
        count, total = defaultdict(float), defaultdict(float)
        for src, tgt in rows:
            for f in tgt:
                whole = sum(t[e, f] for e in src)
                for e in src:
                    count[e, f] += t[e, f] / whole
                    total[e] += t[e, f] / whole
        t = {(e, f): count[e, f] / total[e] for e, f in t}
    return t


@pytest.mark.parametrize("at_once", [1, 40, 10_000])
def test_the_probabilities_are_those_of_ibm_model_1(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shortlist, "_LINKS_AT_ONCE", at_once)
    draw = Random(3)
    rows = [tuple([draw.randrange(13) for _ in range(draw.randrange(1, 7))] for _ in range(2)) for _ in range(29)]
    table = translation_table(encode(rows, 17), 17, 17)
    found = dict(zip(zip(table.src.tolist(), table.tgt.tolist(), strict=True), table.probability, strict=True))
    assert found == pytest.approx(plain_model_1(rows, 4))
    assert table.times.sum() == pytest.approx(sum(len(tgt) for _, tgt in rows))


def test_of_a_long_text_pairs_from_all_over_it_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [([number, 1], [number]) for number in range(100)]
    monkeypatch.setattr(shortlist, "MAX_LINKS", 50)
    table = translation_table(encode(rows, 100), 100, 100)
    assert len(set(table.tgt.tolist())) == 25
    assert {0, 99} <= set(table.tgt.tolist())


def test_candidates_are_what_translates_a_token_the_token_itself_and_the_frequent(tmp_path, monkeypatch):
    monkeypatch.setattr(shortlist, "FREQUENT", 3)
    shutil.copytree(BUNDLED, tmp_path / "run")
    run = RunDirectory(tmp_path / "run")
    lines: list[str] = []
    made = make_shortlist(run, PAIRS, lines.append)
    src, tgt = run.read_tokenizers()
    assert lines[0] == "Shortlist: 6 pairs."
    assert str(run.shortlist_file) in lines[1]
    for word, translation in {" house": " Haus", " love": " liebe", " time": " Zeit"}.items():
        (source,), (target,) = src.to_ids(word), tgt.to_ids(translation)
        assert target in made.candidates[source][:4]
        assert source in made.candidates[source]
    (unseen,) = src.to_ids(" station")
    assert made.candidates[unseen] == (unseen,)
    assert len(made.frequent) == 3
    assert read_shortlist(load_run(run.path, "cpu")) == made
    lines = made.to_vocabulary_map((src.entries(), tgt.entries())).splitlines()
    assert lines[0] == "\t" + " ".join(tgt.entries()[number] for number in made.frequent)
    house, translation = src.entry(src.to_ids(" house")[0]), tgt.entry(tgt.to_ids(" Haus")[0])
    (line,) = [line for line in lines if line.startswith(f"{house}\t")]
    assert translation in line.split("\t")[1].split(" ")


def test_of_each_source_token_the_most_probable_are_kept(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = Tokenizer.load(BUNDLED / "tokenizer.src.json")
    rows = [([10, 2], [20, 21, 2])] * 3 + [([10, 2], [20, 22, 2])] * 2 + [([10, 2], [20, 23, 2])]
    texts = encode(rows, tokenizer.size)
    assert Shortlist.from_ids(texts, (tokenizer, tokenizer)).candidates[10] == (2, 20, 21, 22, 23, 10)
    monkeypatch.setattr(shortlist, "MAX_CANDIDATES", 3)
    assert Shortlist.from_ids(texts, (tokenizer, tokenizer)).candidates[10] == (2, 20, 21, 10)


def test_a_damaged_file_and_one_of_other_tokenizers_are_refused(tmp_path) -> None:
    path, (src, tgt) = tmp_path / "shortlist.json", RunDirectory(BUNDLED).read_tokenizers()
    assert Shortlist.read(path, (src, tgt)) is None
    made = Shortlist((5, 6), {7: (8, 9)}, (src.digest, tgt.digest))
    made.write(path)
    assert Shortlist.read(path, (src, tgt)) == made
    other = Tokenizer.train("words", ["a b c"], 10)
    with pytest.raises(CheckpointError, match=r"is of other tokenizers than the run has now\. Make it again: glass"):
        Shortlist.read(path, (other, tgt))
    whole = path.read_text()
    for text in (whole[:-5], whole.replace("[5, 6]", "[5, 7]"), "[]", "{}", "null", "\0", whole.replace('"8', '"x')):
        path.write_text(text)
        if text != whole:
            with pytest.raises(CheckpointError, match=r"shortlist\.json: is damaged: .* Make it again: glassformer"):
                Shortlist.read(path, (src, tgt))
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match="cannot be written"):
        made.write(path)
    with pytest.raises(CheckpointError, match="is damaged"):
        Shortlist.read(path, (src, tgt))


def test_text_that_is_missing_and_tokens_with_spaces_are_refused(tmp_path) -> None:
    shutil.copytree(BUNDLED, tmp_path / "run")
    run = RunDirectory(tmp_path / "run")
    with pytest.raises(RunError, match="holds no text that it was trained on, expected pairs"):
        make_shortlist(run, None, print)
    with pytest.raises(TextError, match="found no pair with text on both sides"):
        make_shortlist(run, [Pair("", "x")], print)
    characters = Tokenizer.train("characters", ["a b"], 10)
    with pytest.raises(ConfigError, match="has the token ' ', expected tokens without white space"):
        Shortlist.from_ids(encode([([4], [4])], characters.size), (characters, characters))
    assert not run.shortlist_file.exists()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The bundled model with a shortlist, and a user's cache of one's own."""
    pytest.importorskip("ctranslate2", reason="CTranslate2 is an extra: pip install '.[fast]'")
    path = tmp_path_factory.mktemp("runs") / "run"
    shutil.copytree(BUNDLED, path)
    make_shortlist(RunDirectory(path), PAIRS, lambda _: None)
    return path


@pytest.fixture(scope="module")
def fast(run):
    """The run in CTranslate2, held to its shortlist."""
    with Translator.load(run, engine="ctranslate2", workers=1, shortlist=True) as translator:
        yield translator


@pytest.fixture(scope="module")
def allowed(run) -> set[int]:
    """The ids that an output of TEXTS may hold."""
    found = read_shortlist(load_run(run, "cpu"))
    src, _ = RunDirectory(run).read_tokenizers()
    ids = {number for text in TEXTS for number in src.to_ids(text)} | {2}
    return {*found.frequent, 1, 2, 3, *(target for source in ids for target in found.candidates[source])}


@pytest.mark.parametrize("options", [{"beam": 1}, {"beam": 3, "n_best": 3}, {"sample": True, "seed": 5}], ids=str)
def test_an_output_holds_candidates_of_its_batch_alone(fast, allowed, options) -> None:
    found = fast.translate(TEXTS, DecodeConfig(**options))
    ids = {number for one in found for hypothesis in one.hypotheses for number in hypothesis.ids}
    assert ids <= allowed
    assert len(allowed) < 600


def test_with_all_tokens_as_candidates_nothing_changes(run, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shortlist, "FREQUENT", 8000)
    shutil.copytree(run, tmp_path / "all")
    make_shortlist(RunDirectory(tmp_path / "all"), PAIRS, lambda _: None)
    asked = DecodeConfig(beam=3, n_best=2)
    outputs = []
    for use in (False, True):
        with Translator.load(tmp_path / "all", engine="ctranslate2", workers=1, shortlist=use) as translator:
            outputs.append(translator.translate(TEXTS, asked))
    for one, other in zip(*outputs, strict=True):
        for best, found in zip(one.hypotheses, other.hypotheses, strict=True):
            assert best.text == found.text
            assert best.log_prob == pytest.approx(found.log_prob, abs=1e-3)


def test_prefixes_bans_streams_and_alignments_act(fast) -> None:
    requests = [Request("The house is old.", prefix="Die Schule"), Request("I love you, too.", ban=("liebe",))]
    first, second = fast.translate_stream(requests, DecodeConfig(beam=1))
    assert first.text.startswith("Die Schule")
    assert "liebe" not in second.text.split()
    pieces = list(fast.stream("I love you, too.", DecodeConfig(beam=1)))
    alone = fast.translate(["I love you, too."], DecodeConfig(beam=1), attention=True)[0]
    assert "".join(str(getattr(piece, "text", piece)) for piece in pieces) == alone.text
    assert alone.hypotheses[0].hard_alignment()


@pytest.mark.slow
def test_the_export_is_renewed_with_the_shortlist_and_takes_it_along(run, tmp_path) -> None:
    shutil.copytree(run, tmp_path / "run", ignore=shutil.ignore_patterns("ctranslate2", "shortlist.json"))
    place = RunDirectory(tmp_path / "run")
    with pytest.raises(ConfigError, match=r"has no shortlist\.json, expected one\. Make it: glassformer shortlist"):
        Translator.load(place.path, engine="ctranslate2", shortlist=True)
    with pytest.raises(ConfigError, match=r"--run DIR\. Copy .* to a place of yours first\."):
        Translator.load(engine="ctranslate2", shortlist=True)
    with pytest.raises(ConfigError, match="shortlist: found with engine torch"):
        Translator.load(place.path, engine="torch", shortlist=True)
    Translator.load(place.path, engine="ctranslate2").close()
    seen = set()
    for pairs in (PAIRS[:2], PAIRS):
        make_shortlist(place, pairs, lambda _: None)
        Translator.load(place.path, engine="ctranslate2", shortlist=True).close()
        (written,) = place.path.glob("ctranslate2/*/vmap.txt")
        seen.add(written.read_text())
    assert len(seen) == 2
    result = CliRunner().invoke(
        app, ["export", str(place.path), "--to", "ctranslate2", "--out", str(tmp_path / "out")]
    )
    assert result.exit_code == 0, result.output
    assert (tmp_path / "out" / "vmap.txt").read_text() in seen
    assert "vmap.txt" in json.loads((tmp_path / "out" / "manifest.json").read_text())["files"]


@pytest.mark.slow
def test_the_command_counts_in_pairs_or_in_what_the_run_learned(run, tmp_path) -> None:
    shutil.copytree(run, tmp_path / "run", ignore=shutil.ignore_patterns("ctranslate2", "shortlist.json"))
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"{pair.src}\t{pair.tgt}\n" for pair in PAIRS if pair.src))
    place = ["--run", str(tmp_path / "run")]
    result = CliRunner().invoke(app, ["shortlist", str(pairs), *place])
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("Shortlist: 6 pairs.\n")
    translated = CliRunner().invoke(
        app, ["translate", "I love you, too.", "--engine", "ctranslate2", "--shortlist", *place]
    )
    assert translated.exit_code == 0, translated.output
    assert translated.stdout == "Ich liebe dich auch.\n"
    tuned = ["--init", "bundled", "--run", str(tmp_path / "tuned"), "--max-updates", "1"]
    result = CliRunner().invoke(app, ["train", str(pairs), "--valid", str(pairs), *tuned])
    assert result.exit_code == 0, result.output
    result = CliRunner().invoke(app, ["shortlist", "--run", str(tmp_path / "tuned")])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "tuned" / "shortlist.json").is_file()
