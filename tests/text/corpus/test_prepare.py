import hashlib
import json
import os
import random
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from glassformer.errors import StorageError, TextError
from glassformer.settings import TextConfig
from glassformer.text import EOS_ID, EncodedPairs, EncodedWriter, Pair, PreparedText
from glassformer.text.corpus import workers
from glassformer.text.corpus.filtering import CorpusStats, find_mistakes, is_garbled, rejection_reason, training_texts
from glassformer.text.corpus.prepare import PrepareProgress, prepare

WORDS = "red green blue one two three cat dog bird sees likes the a and or not"


def corpus(count: int) -> list[Pair]:
    source = random.Random(7)
    return [
        Pair(" ".join(words), " ".join(word[::-1] for word in words))
        for words in (source.choices(WORDS.split(), k=source.randint(3, 9)) for _ in range(count))
    ]


def run(
    directory: Path, pairs: list[Pair], valid: list[Pair] | None = None, *, source: str = "s", **settings
) -> tuple[PreparedText, list[str]]:
    lines: list[str] = []

    def stream() -> Iterator[Pair]:
        return iter(pairs)

    prepared = prepare(
        stream, None if valid is None else lambda: iter(valid), TextConfig(**settings), directory,
        source=source, report=lines.append,
    )  # fmt: skip
    return prepared, lines


def training_pairs(prepared: PreparedText) -> list[Pair]:
    return [
        Pair(
            prepared.src_tokenizer.to_text(prepared.train.src_side.ids(i)),
            prepared.tgt_tokenizer.to_text(prepared.train.tgt_side.ids(i)),
        )
        for i in range(len(prepared.train))
    ]


def test_every_pair_is_for_training_or_for_validation(tmp_path):
    pairs = corpus(500)
    prepared, lines = run(tmp_path / "p", pairs)
    train, valid = training_pairs(prepared), prepared.valid_text
    assert set(train) | set(valid) == set(pairs)
    assert not {pair.src for pair in train} & {pair.src for pair in valid}
    assert 15 <= len(valid) <= 25
    assert len(prepared.valid) == len(valid) == prepared.counts["valid"]
    assert lines == [
        f"Text: 500 pairs read, {len(train)} for training, {len(valid)} for validation; left out: 0 empty, "
        f"0 too long, 0 lopsided; bpe vocabulary of {prepared.src_tokenizer.size} entries."
    ]


def test_sources_are_cleaned_repeats_counted_and_the_split_does_not_depend_on_the_order(tmp_path):
    pairs = corpus(50)
    spaced = [Pair(f" {pair.src} ".replace(" ", " \u00a0\u200b"), pair.tgt.replace(" ", "\u00a0")) for pair in pairs]
    prepared, _ = run(tmp_path / "p", spaced, spaced[:5], tokenizer="characters", vocab_size=60)
    assert [pair.src for pair in training_pairs(prepared)] == [pair.src for pair in pairs]
    assert prepared.valid_text == [Pair(pair.src, pair.tgt.replace(" ", "\u00a0")) for pair in pairs[:5]]
    assert training_pairs(prepared)[0].tgt == spaced[0].tgt
    pairs = corpus(10) * 64
    prepared, lines = run(tmp_path / "p", pairs, valid_pairs=2)
    repeats = prepared.counts["repeats"]
    assert repeats == 63 * len(prepared.valid_text) > 0
    assert len(prepared.train) + len(prepared.valid) + repeats == len(pairs)
    assert f"0 lopsided, {repeats} repeats of validation pairs; " in lines[0]
    pairs = corpus(300)
    first, _ = run(tmp_path / "a", pairs)
    second, _ = run(tmp_path / "b", pairs[::-1])
    assert set(first.valid_text) == set(second.valid_text)


def test_pairs_left_out_are_counted(tmp_path):
    bad = [
        Pair("", "x"),
        Pair("y", " \u200b"),
        Pair("cat " * 40, "tac " * 40),
        Pair("a", "b c d e f g h i j k l m n"),
    ]
    prepared, lines = run(
        tmp_path / "p", corpus(100) + bad, corpus(120)[110:] + bad, tokenizer="words", max_tokens=30, max_ratio=2.0
    )
    counts = prepared.counts
    assert {name: counts[name] for name in ("read", "empty", "too_long", "lopsided", "kept")} == {
        "read": 104, "empty": 2, "too_long": 1, "lopsided": 1, "kept": 100,
    }  # fmt: skip
    assert "2 empty, 1 too long, 1 lopsided" in lines[0]
    assert len(prepared.valid_text) == 12
    assert len(prepared.valid) == 10
    assert counts["valid_too_long"] == counts["valid_lopsided"] == 1


@pytest.mark.parametrize(
    ("src", "tgt", "reason"),
    [
        (30, 30, None), (31, 30, "too_long"), (30, 31, "too_long"), (5, 20, None), (5, 21, "lopsided"), (21, 5,
        "lopsided"), (1, 12, None),
    ],
)  # fmt: skip
def test_length_rules_at_their_edges(src, tgt, reason):
    assert rejection_reason(src, tgt, TextConfig(max_tokens=30, max_ratio=2.0)) == reason


def test_the_same_data_and_settings_are_prepared_once_by_any_number_of_processes(tmp_path):
    pairs = corpus(60)
    first, _ = run(tmp_path / "p", pairs)
    second, lines = run(tmp_path / "p", [])  # an empty corpus would fail, so nothing was read
    assert "using the preparation in" in lines[0]
    assert training_pairs(second) == training_pairs(first)
    assert (second.valid_text, second.counts) == (first.valid_text, first.counts)
    assert second.src_tokenizer.digest == first.src_tokenizer.digest
    run(tmp_path / "p", corpus(60), workers=1)
    _, lines = run(tmp_path / "p", corpus(60), workers=2)
    assert "using the preparation in" in lines[0]


def test_other_data_or_settings_are_prepared_again(tmp_path):
    run(tmp_path / "p", corpus(60))
    other, lines = run(tmp_path / "p", corpus(90), source="other")
    assert other.counts["read"] == 90
    assert "pairs read" in lines[0]
    lower, _ = run(tmp_path / "p", corpus(90), source="other", lowercase=True)
    assert lower.src_tokenizer.digest != other.src_tokenizer.digest


@pytest.mark.parametrize(
    "name",
    [
        "prepared.json", "src.tokenizer.json", "train/src.ids", "train/tgt.offsets", "valid/src.lengths",
        "valid/encoded.json", "valid.jsonl",
    ],
)  # fmt: skip
@pytest.mark.parametrize("damage", ["missing", "cut", "flipped", "pipe"])
def test_a_damaged_preparation_is_made_again(tmp_path, name, damage):
    first, _ = run(tmp_path / "p", corpus(60))
    before = training_pairs(first)
    path = tmp_path / "p" / name
    content = bytearray(path.read_bytes())
    path.unlink()
    if damage == "cut":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "flipped":
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    elif damage == "pipe":
        os.mkfifo(path)
    again, lines = run(tmp_path / "p", corpus(60))
    assert "pairs read" in lines[-1]
    assert training_pairs(again) == before
    assert again.valid_text == first.valid_text
    if name != "prepared.json":
        assert f"{path}: " in lines[0]
        assert "the text is prepared again" in lines[0].lower()


def reseal(directory: Path, name: str) -> None:
    """Give a changed file the sum that fits it: then only its contents can be wrong."""
    file = directory / "prepared.json"
    found = json.loads(file.read_text())
    found["files"][name] = hashlib.sha256((directory / name).read_bytes()).hexdigest()
    file.write_text(json.dumps(found))


@pytest.mark.parametrize(
    ("name", "at", "value", "said"),
    [
        ("train/src.ids", 3, 60_000, "the source texts hold the id 60000, expected ids below"),
        ("train/tgt.ids", 3, 60_000, "the target texts hold the id 60000"),
        ("train/src.lengths", 0, 7_000, "src.offsets does not fit src.lengths"),
        ("valid/tgt.offsets", 1, -5, "tgt.offsets does not fit tgt.lengths"),
        ("train/tgt.offsets", 0, 1, "tgt.offsets does not fit tgt.lengths"),
    ],
)
def test_contents_that_cannot_be_true_are_prepared_again(tmp_path, name, at, value, said):
    before = training_pairs(run(tmp_path / "p", corpus(60))[0])
    path = tmp_path / "p" / name
    dtype = {"ids": "<u2", "lengths": "<i4", "offsets": "<i8"}[name.rsplit(".")[-1]]
    values = np.frombuffer(path.read_bytes(), dtype).copy()
    values[at] = value
    path.write_bytes(values.tobytes())
    reseal(tmp_path / "p", name)
    again, lines = run(tmp_path / "p", corpus(60))
    assert said in lines[0]
    assert training_pairs(again) == before


def test_a_preparation_of_an_earlier_version_or_without_sums_is_made_again(tmp_path):
    run(tmp_path / "p", corpus(60))
    file = tmp_path / "p" / "prepared.json"
    found = json.loads(file.read_text())
    for changes in ({"format": 1}, {"files": {}}):
        file.write_text(json.dumps({**found, **changes}))
        _, lines = run(tmp_path / "p", corpus(60))
        assert "pairs read" in lines[-1]
        assert json.loads(file.read_text()) == found


def test_a_preparation_leads_nowhere_else(tmp_path):
    outside = tmp_path / "outside"
    (outside / "train").mkdir(parents=True)
    (outside / "train" / "src.ids").write_text("mine")
    place = tmp_path / "p"
    place.mkdir()
    (place / "train").symlink_to(outside / "train")
    (place / "valid.jsonl").symlink_to(outside / "valid.jsonl")
    (place / "prepared.json").symlink_to(outside / "prepared.json")
    run(place, corpus(60))
    assert [path.name for path in outside.rglob("*")] == ["train", "src.ids"]
    assert (outside / "train" / "src.ids").read_text() == "mine"
    (tmp_path / "link").symlink_to(outside)
    with pytest.raises(StorageError, match="is a symbolic link"):
        run(tmp_path / "link", corpus(60))


def test_an_interrupted_preparation_is_not_complete(tmp_path):
    run(tmp_path / "p", corpus(60))

    def broken() -> Iterator[Pair]:
        yield from corpus(60)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare(broken, None, TextConfig(), tmp_path / "p", source="new", report=lambda _: None)
    assert not (tmp_path / "p" / "prepared.json").exists()


def test_two_tokenizers_or_one(tmp_path):
    joint, _ = run(tmp_path / "a", corpus(60))
    assert joint.src_tokenizer is joint.tgt_tokenizer
    apart, _ = run(tmp_path / "b", corpus(60), joint=False, tokenizer="words")
    assert apart.src_tokenizer.to_tokens(apart.src_tokenizer.to_ids("cat tac")) == ["cat", "<unk>"]
    assert apart.tgt_tokenizer.to_tokens(apart.tgt_tokenizer.to_ids("cat tac")) == ["<unk>", "tac"]


@pytest.mark.parametrize("kind", TextConfig.choices("tokenizer"))
def test_the_automatic_size_suits_a_tiny_corpus_of_each_kind(tmp_path, kind):
    prepared, _ = run(tmp_path / "p", [Pair("a b", "b a"), Pair("c", "c")], tokenizer=kind)
    assert len(prepared.train) == len(prepared.valid) == 1


def test_validation_text_does_not_train_the_tokenizer(tmp_path):
    pairs = corpus(40)
    first, _ = run(tmp_path / "a", pairs, tokenizer="words")
    chosen = first.valid_text[0]
    marked = [Pair(pair.src, "secret") if pair.src == chosen.src else pair for pair in pairs]
    second, _ = run(tmp_path / "b", marked, tokenizer="words")
    assert second.tgt_tokenizer.to_tokens(second.tgt_tokenizer.to_ids("secret")) == ["<unk>"]


def test_valid_pairs_sets_the_number_of_validation_pairs(tmp_path):
    prepared, _ = run(tmp_path / "p", corpus(300), valid_pairs=37)
    assert 36 <= len(prepared.valid_text) <= 37
    assert len(prepared.train) >= 263


@pytest.mark.parametrize("pairs", [[Pair("one", "eins")], [Pair("one", "eins")] * 5])
def test_one_source_cannot_be_split(tmp_path, pairs):
    with pytest.raises(TextError, match="at least 2 different"):
        run(tmp_path / "p", pairs)


def test_a_corpus_of_repeats_leaves_pairs_for_training_and_for_validation(tmp_path):
    others = [Pair(f"number {n}", f"Zahl {n}") for n in range(10)]
    prepared, _ = run(tmp_path / "p", [Pair("again", "wieder")] * 990 + others)
    assert len(prepared.valid_text) == 1
    assert len(prepared.train) >= 10


def test_more_validation_pairs_than_sources_are_refused(tmp_path):
    with pytest.raises(TextError, match=r"text\.valid_pairs: found 50, .* 2 different"):
        run(tmp_path / "p", [Pair("a", "b"), Pair("c", "d")], valid_pairs=50)


@pytest.mark.parametrize(
    ("pairs", "valid", "settings", "message"),
    [
        ([], None, {}, "no pairs"),
        ([Pair("", "x"), Pair("y", "")], None, {}, "2 pairs, all with an empty side"),
        (
            [Pair("cat dog", "tac god")],
            [Pair("cat", "tac")],
            {"max_tokens": 1},
            r"No training pair .* 1 have more than 1",
        ),
        ([Pair("cat", "tac")], [Pair("cat dog", "tac god")], {"max_tokens": 1}, "No validation pair"),
        ([Pair("cat", "tac")], [], {}, "validation text holds no pair"),
        ([Pair("cat", "tac")], [Pair(" ", "tac")], {}, "validation text holds no pair"),
    ],
)
def test_no_pair_for_training_or_for_validation_is_an_error(tmp_path, pairs, valid, settings, message):
    with pytest.raises(TextError, match=message):
        run(tmp_path / "p", pairs, valid, tokenizer="words", **settings)
    assert not (tmp_path / "p" / "prepared.json").exists()


def test_a_lone_surrogate_survives_in_validation_text(tmp_path):
    odd = [Pair("a\ud800", "b")]
    run(tmp_path / "p", corpus(50), odd)
    again, lines = run(tmp_path / "p", [])
    assert "using" in lines[0]
    assert again.valid_text == odd


@pytest.mark.parametrize(
    ("vocab", "dtype"), [(100, np.uint16), (65_535, np.uint16), (65_536, np.uint32), (70_000, np.uint32)]
)
def test_ids_are_stored_in_the_smallest_type_that_holds_them(tmp_path, vocab, dtype):
    with EncodedWriter(tmp_path, vocab) as writer:
        writer.append([[vocab - 1, EOS_ID]], [[EOS_ID]])
        writer.append([], [])
        writer.append([[4, 5, EOS_ID]], [[6, EOS_ID]])
    pairs = EncodedPairs(tmp_path)
    assert len(pairs) == 2
    assert pairs.src_side.ids(0).dtype == dtype
    assert pairs.src_side.ids(0).tolist() == [vocab - 1, EOS_ID]
    assert pairs.tgt_side.ids(1).tolist() == [6, EOS_ID]
    assert pairs.src_side.lengths.tolist() == [2, 3]
    assert pairs.tgt_side.lengths.tolist() == [1, 2]


def test_an_empty_corpus_can_be_read(tmp_path):
    EncodedWriter(tmp_path, 10).close()
    assert len(EncodedPairs(tmp_path)) == 0
    assert json.loads((tmp_path / "encoded.json").read_text())["pairs"] == 0


def test_files_of_a_failed_writer_cannot_be_read(tmp_path):
    def fail() -> None:
        with EncodedWriter(tmp_path, 10) as writer:
            writer.append([[4]], [[4]])
            raise LookupError

    with pytest.raises(LookupError):
        fail()
    with pytest.raises(TextError, match="incomplete"):
        EncodedPairs(tmp_path)


def files(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in sorted(directory.rglob("*.*"))}


@pytest.mark.slow
def test_the_number_of_processes_does_not_change_the_files(tmp_path, monkeypatch):
    monkeypatch.setattr(import_module("glassformer.text.corpus.encoding"), "PAIRS_IN_CHUNK", 50)
    monkeypatch.setattr(workers, "CHUNKS_BEFORE_POOL", 2)
    pairs = [*corpus(1500), Pair("", "x"), Pair("cat " * 40, "tac " * 40)]
    found = []
    for count in (1, 2, 3):
        prepared, lines = run(tmp_path / str(count), pairs, workers=count, max_tokens=30)
        assert prepared.counts["read"] == 1502
        content = files(tmp_path / str(count))
        content.pop("prepared.json")  # it holds the configured number of processes
        found.append((content, lines))
    assert found[0] == found[1] == found[2]


def test_a_process_that_dies_is_one_clear_error(monkeypatch):
    monkeypatch.setattr(workers, "CHUNKS_BEFORE_POOL", 0)
    with pytest.raises(TextError, match=r"One of 2 processes .* Set text\.workers to 1"):
        list(workers.map_chunks(os._exit, iter([3, 3, 3]), 2))


def test_results_come_in_the_order_of_the_chunks_and_few_chunks_are_held(monkeypatch):
    monkeypatch.setattr(workers, "CHUNKS_BEFORE_POOL", 3)
    taken: list[int] = []

    def chunks() -> Iterator[float]:
        for number in range(40):
            taken.append(number)
            yield -float(number)

    for done, result in enumerate(workers.map_chunks(abs, chunks(), 2)):
        assert result == done
        assert len(taken) <= done + 1 + 4
    assert len(taken) == 40


def test_a_tokenizer_is_trained_on_the_same_sample_of_many_pairs(tmp_path):
    pairs = [Pair(f"word{n}", f"wort{n}") for n in range(1000)]
    stats = CorpusStats(1000, 1000, 0.0)
    drawn = [list(training_texts(pairs, stats, (0,), 300)) for _ in range(2)]
    assert drawn[0] == drawn[1]
    assert 250 < len(drawn[0]) < 350
    numbers = [int(text[4:]) for text in drawn[0]]
    assert numbers == sorted(set(numbers))
    assert min(numbers) < 30
    assert max(numbers) > 970
    for most in (0, 1000, 5000):
        assert len(list(training_texts(pairs, stats, (0, 1), most))) == 2000
    prepared, _ = run(tmp_path / "p", pairs, tokenizer="words", vocab_size=3000, tokenizer_pairs=100)
    assert 2 * 60 < prepared.src_tokenizer.size < 2 * 140
    assert prepared.counts["kept"] == 950


def test_a_long_preparation_reports_its_progress(tmp_path, monkeypatch):
    for name, value in {
        "_PAIRS_BETWEEN_CHECKS": 1,
        "_SECONDS_BETWEEN_CALLS": 0.0,
        "SECONDS_BETWEEN_LINES": 1e-5,
    }.items():
        monkeypatch.setattr(import_module("glassformer.text.corpus.prepare"), name, value)
    reports: list[tuple[PrepareProgress, bool]] = []
    pairs = corpus(300)
    prepare(
        lambda: iter(pairs), None, TextConfig(), tmp_path / "p",
        source="s", report=lambda _: None, on_progress=lambda progress, *, due: reports.append((progress, due)),
    )  # fmt: skip
    assert {step.stage for step, _ in reports} == {"pairs read", "tokenizer", "encoding"}
    for stage, total in (("pairs read", None), ("tokenizer", 300), ("encoding", 300)):
        steps = [step for step, _ in reports if step.stage == stage]
        assert [step.done for step in steps] == sorted(step.done for step in steps)
        assert {step.total for step in steps} == {total}
    assert any(due for _, due in reports)
    half = PrepareProgress("encoding", 50, 200, 10.0)
    assert (half.pairs_per_s, half.left_s) == (5.0, 30.0)


def mistakes(directory: Path, pairs: list[Pair]) -> list[str]:
    return list(find_mistakes(run(directory, pairs)[0].counts))


def test_pairs_that_look_like_a_mistake_are_named(tmp_path):
    pairs = [Pair(src, f"{tgt} für") for src, tgt in corpus(1000)]
    assert mistakes(tmp_path / "right", [*pairs, Pair("Hi", "Hi"), Pair("a", "Spaß…")]) == []
    copies = [Pair(src, src) for src, _ in pairs[:950]]
    assert "pairs have the same text on both sides" in mistakes(tmp_path / "copies", [*copies, *pairs[950:]])[0]


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1"])
def test_text_that_was_read_in_a_wrong_encoding_is_named(tmp_path, encoding):
    pairs = [Pair(src, f"{tgt} für".encode().decode(encoding)) for src, tgt in corpus(100)]
    (found,) = mistakes(tmp_path / "p", pairs)
    assert "pairs have letters like 'Ã¼'" in found
    assert is_garbled("f\ufffdr")
    assert not any(map(is_garbled, ["für", "„Spaß“", "Ã", "Привет", "été»", "日本"]))


@pytest.mark.parametrize("move", [1, -2])
def test_lines_that_are_out_of_step_are_named_with_their_place(tmp_path, move):
    pairs = corpus(6000)
    targets = [pair.tgt for pair in pairs]
    moved = targets[:4500] + ([*targets[4501:], "x"] if move > 0 else ["x", "y", *targets[4500:-2]])
    (found,) = mistakes(tmp_path / "p", [Pair(pair.src, tgt) for pair, tgt in zip(pairs, moved, strict=True)])
    assert int(re.search(r"near pair ([\d,]+) ", found)[1].replace(",", "")) == pytest.approx(4500, abs=250)


def test_validation_sources_that_are_learned_too_are_counted(tmp_path):
    pairs, new = corpus(50), Pair("a new one", "eno wen a")
    prepared, _ = run(tmp_path / "given", pairs, [pairs[3]._replace(tgt="other"), new, new])
    assert prepared.counts["valid_seen"] == 1
    assert prepared.counts["kept"] == 50
    assert len(prepared.valid_text) == 3
    prepared, _ = run(tmp_path / "split", pairs)
    assert prepared.counts["valid_seen"] == 0


def test_carriage_returns_of_targets_are_spaces_and_counted(tmp_path):
    from glassformer.text.lines import read_returns

    texts = {"a\rb": "a b", "\ra \r": "a", "a\r\nb": "a\nb", "a \r\r b": "a b", "a": "a", "a \n": "a \n"}
    assert {text: read_returns(text) for text in texts} == texts
    prepared, lines = run(tmp_path / "text", [Pair(pair.src, f"{pair.tgt}\rb") for pair in corpus(90)])
    assert prepared.counts["returns"] == 90
    assert "the carriage returns of 90 targets are read as spaces" in lines[-1]
    assert not any("\r" in pair.tgt for pair in (*training_pairs(prepared), *prepared.valid_text))
