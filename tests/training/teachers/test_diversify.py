"""Teachers of both directions make more pairs from the same text, and never see validation pairs."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from recorded import Lines

from glassformer.decoding.translation import Translation
from glassformer.decoding.translator import Translator
from glassformer.errors import ConfigError, RunError, StorageError, TextError
from glassformer.run_directory import RunDirectory
from glassformer.settings import RunConfig
from glassformer.text import Pair, read_pairs
from glassformer.training.request.arguments import TrainRequest
from glassformer.training.request.data import FileSource
from glassformer.training.teachers import teacher as module
from glassformer.training.teachers.diversify import DiversifyResult, diversify
from glassformer.training.train import train


def both(config: RunConfig) -> dict[str, RunConfig]:
    return {"forward": config, "backward": config}


def read(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def translations(place: Path, direction: str) -> Path:
    (found,) = (place / direction).glob("translations-*.jsonl")
    return found


def usable(translation: Translation) -> bool:
    return not (translation.source_truncated or translation.limit_warning)


def run_diversify(place: Path, source: FileSource, teachers: dict[str, RunConfig], lines: Lines) -> DiversifyResult:
    found = diversify(place, source, teachers, lines)
    assert isinstance(found, DiversifyResult)
    return found


def files_of(place: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in place.iterdir()}


@pytest.mark.slow
def test_the_text_is_kept_and_both_teachers_add_their_translations(corpus, small_config, tmp_path, lines):
    place = tmp_path / "more"
    found = run_diversify(place, FileSource(*corpus), both(small_config(max_updates=60)), lines)
    own, learned = list(read_pairs(place / "pairs/own.src", place / "pairs/own.tgt")), list(found.source.pairs())
    assert (found.original, found.pairs) == (len(own), len(learned))
    assert learned[: len(own)] == own
    outputs = {}
    for direction, side in (("forward", 0), ("backward", 1)):
        with Translator.load(place / direction) as teacher:
            texts = list(dict.fromkeys(pair[side] for pair in own))
            found_there = teacher.translate(texts, small_config().decode)
            outputs[direction] = {one.source: one.text if usable(one) else "" for one in found_there}
    made = [
        *(Pair(pair.src, outputs["forward"][pair.src]) for pair in own),
        *(Pair(outputs["backward"][pair.tgt], pair.tgt) for pair in own),
    ]
    aside = {pair.src for pair in found.source.valid() or ()}
    expected = [pair for pair in dict.fromkeys(made) if not (pair in own or pair.blank or pair.src in aside)]
    assert learned[len(own) :] == expected
    assert {pair.src for pair in expected} - {pair.src for pair in own}
    assert {pair.tgt for pair in expected} - {pair.tgt for pair in own}


@pytest.mark.slow
def test_no_teacher_learns_from_validation_pairs(corpus, small_config, tmp_path, lines):
    place, config = tmp_path / "more", small_config(max_updates=2)
    found = run_diversify(place, FileSource(*corpus), both(config), lines)
    train(TrainRequest(tmp_path / "plain", FileSource(*corpus), config), lines)
    aside = list(found.source.valid() or ())
    assert aside == [Pair(*pair) for pair in read(tmp_path / "plain/text/valid.jsonl")]
    own = list(read_pairs(place / "pairs/own.src", place / "pairs/own.tgt"))
    assert not {pair.src for pair in own} & {pair.src for pair in aside}
    assert {*own, *aside} == set(read_pairs(*corpus))
    for direction, sides in (("forward", (0, 1)), ("backward", (1, 0))):
        _, data = RunDirectory(place / direction).read_config()
        assert ("turned" in data) == (direction == "backward")
        validated = [Pair(*pair) for pair in read(place / direction / "text/valid.jsonl")]
        assert validated == [Pair(*(pair[side] for side in sides)) for pair in aside]


@pytest.mark.slow
def test_a_file_of_pairs_keeps_its_line_breaks(small_config, corpus, tmp_path, lines):
    pairs = [Pair(f"{pair.src}\n{pair.src}", pair.tgt) for pair in read_pairs(*corpus)]
    texts = tmp_path / "texts.jsonl"
    texts.write_text("".join(json.dumps(pair._asdict()) + "\n" for pair in pairs))
    found = run_diversify(tmp_path / "more", FileSource(texts), both(small_config(max_updates=2)), lines)
    assert (found.source.src, found.source.tgt) == (tmp_path / "more/pairs/train.jsonl", None)
    aside = set(found.source.valid() or ())
    assert list(found.source.pairs())[: found.original] == [pair for pair in pairs if pair not in aside]


@pytest.mark.slow
def test_one_direction_is_enough_and_none_is_refused(corpus, small_config, tmp_path, lines):
    config = small_config(max_updates=60)
    found = run_diversify(tmp_path / "more", FileSource(*corpus), {"backward": config}, lines)
    learned = list(found.source.pairs())
    assert found.pairs > found.original
    assert {pair.tgt for pair in learned} == {pair.tgt for pair in learned[: found.original]}
    assert not (tmp_path / "more/forward").exists()
    for odd in ({}, {"sideways": config}):
        with pytest.raises(ConfigError, match=r"teachers: found (none|\['sideways'\]), expected forward, backward"):
            diversify(tmp_path / "odd", FileSource(*corpus), odd, lines)


@pytest.mark.slow
def test_a_teacher_translates_again_after_more_training_or_with_another_search(corpus, small_config, tmp_path, lines):
    place, longer = tmp_path / "more", small_config(max_updates=6)
    greedy = replace(longer, decode=replace(longer.decode, beam=1))
    for number, config in enumerate((small_config(max_updates=3), longer, greedy, greedy), 1):
        run_diversify(place, FileSource(*corpus), {"forward": config}, lines)
        assert len(list((place / "forward").glob("translations-*"))) == min(number, 3)


@pytest.mark.slow
def test_translations_from_before_a_stop_are_reused(corpus, small_config, tmp_path, lines, monkeypatch):
    place, order = tmp_path / "more", {"forward": small_config(max_updates=30)}
    whole = run_diversify(place, FileSource(*corpus), order, lines)
    kept = translations(place, "forward")
    all_of_it = kept.read_text()
    monkeypatch.setattr(module, "_TEXTS_PER_CHUNK", 7)
    half = all_of_it[: len(all_of_it) // 2]
    kept.write_text(half)
    translated: list[str] = []
    usable_text = module._complete_text

    def counting(one: Translation) -> str:
        translated.append(one.source)
        return usable_text(one)

    monkeypatch.setattr(module, "_complete_text", counting)
    again = run_diversify(place, FileSource(*corpus), order, lines)
    assert 0 < len(translated) == all_of_it.count("\n") - half.count("\n") // 7 * 7
    assert kept.read_text() == all_of_it
    assert again.original == whole.original
    kept.write_text("not JSON\n")
    run_diversify(place, FileSource(*corpus), order, lines)
    assert kept.read_text() == all_of_it


def test_foreign_files_and_teachers_of_other_text_are_not_overwritten(corpus, small_config, tmp_path, lines):
    place, order = tmp_path / "more", {"forward": small_config(max_updates=2)}
    run_diversify(place, FileSource(*corpus), order, lines)
    before = files_of(place / "pairs")
    other_split = {"forward": replace(order["forward"], text=replace(order["forward"].text, valid_pairs=50))}
    for source, teachers in ((FileSource(corpus[1], corpus[0]), order), (FileSource(*corpus), other_split)):
        with pytest.raises(RunError, match=r"more: holds teachers of other text, or with another text.valid_pairs"):
            diversify(place, source, teachers, lines)
    assert files_of(place / "pairs") == before
    mine = tmp_path / "mine"
    (mine / "pairs").mkdir(parents=True)
    (mine / "pairs/train.src").write_text("dear to me\n")
    with pytest.raises(RunError, match=r"pairs: found files that `glassformer diversify` did not write"):
        diversify(mine, FileSource(*corpus), order, lines)
    assert files_of(mine / "pairs") == {"train.src": b"dear to me\n"}


@pytest.mark.parametrize("name", ["pairs", "forward", "backward"])
def test_a_link_leads_no_teacher_out_of_the_directory(corpus, small_config, tmp_path, lines, name):
    place, outside = tmp_path / "more", tmp_path / "outside"
    place.mkdir()
    outside.mkdir()
    (place / name).symlink_to(outside)
    with pytest.raises(RunError, match=f"more/{name}: is a symbolic link"):
        diversify(place, FileSource(*corpus), both(small_config()), lines)
    assert not list(outside.iterdir())


def test_a_failed_first_write_does_not_claim_the_directory(corpus, small_config, tmp_path, lines):
    aside = tmp_path / "more/pairs/.0123456789abcdef.writing"
    aside.parent.mkdir(parents=True)
    aside.write_text("{")
    assert run_diversify(
        tmp_path / "more", FileSource(*corpus), {"forward": small_config(max_updates=1)}, lines
    ).original


def test_after_an_error_in_the_text_the_same_command_starts_again(corpus, small_config, tmp_path, lines):
    src, tgt = (Path(shutil.copy(side, tmp_path)) for side in corpus)
    whole, order = tgt.read_text(), {"forward": small_config(max_updates=2)}
    tgt.write_text(whole + "one more\n")
    with pytest.raises(TextError, match="has no partner"):
        diversify(tmp_path / "more", FileSource(src, tgt), order, lines)
    tgt.write_text(whole)
    assert run_diversify(tmp_path / "more", FileSource(src, tgt), order, lines).original


def test_a_directory_that_cannot_be_written_is_reported_and_no_partial_pairs_are_left(
    corpus, small_config, tmp_path, lines
):
    place, order = tmp_path / "more", {"forward": small_config(max_updates=1)}
    run_diversify(place, FileSource(*corpus), order, lines)
    before = files_of(place / "pairs")
    (place / "pairs/train.tgt").unlink()
    (place / "pairs/train.tgt").mkdir()
    with pytest.raises(StorageError, match=r"train.src and .*train.tgt: cannot be written: .*name another directory"):
        diversify(place, FileSource(*corpus), order, lines)
    assert (place / "pairs/train.src").read_bytes() == before["train.src"]
    assert {path.name for path in (place / "pairs").iterdir()} == before.keys()
