"""Teachers of both directions make more pairs of the same text, and learn nothing of what is validated with."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from recorded import Lines

from glassformer.config import RunConfig
from glassformer.decoding.translator import Translator
from glassformer.errors import StorageError
from glassformer.run_directory import RunDirectory
from glassformer.text import Pair, read_pairs
from glassformer.training.diversify import Diversified, diversify
from glassformer.training.source import FileSource
from glassformer.training.train import train

Config = Callable[..., RunConfig]
Corpus = tuple[Path, Path]


def both(config: RunConfig) -> dict[str, RunConfig]:
    return {"forward": config, "backward": config}


def kept(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_the_text_is_kept_and_both_teachers_add_what_they_make_of_it(
    corpus: Corpus, small_config: Config, tmp_path: Path, lines: Lines
) -> None:
    place = tmp_path / "more"
    found = diversify(place, FileSource(*corpus), both(small_config(max_updates=60)), lines)
    assert isinstance(found, Diversified)
    own, learned = list(read_pairs(place / "own.src", place / "own.tgt")), list(found.source.pairs())
    assert (found.own, found.pairs) == (len(own), len(learned))
    assert learned[: len(own)] == own
    expected = {}
    for direction, side in (("forward", 0), ("backward", 1)):
        with Translator.load(place / direction) as teacher:
            options = small_config().decode
            expected[direction] = teacher.translate([pair[side] for pair in own], options)
    made = [
        *(Pair(pair.src, one.text) for pair, one in zip(own, expected["forward"], strict=True) if usable(one)),
        *(Pair(one.text, pair.tgt) for pair, one in zip(own, expected["backward"], strict=True) if usable(one)),
    ]
    assert learned[len(own) :] == [pair for pair in dict.fromkeys(made) if pair not in own and not pair.blank]
    assert found.pairs > found.own


def usable(translation: Any) -> bool:
    return not (translation.source_truncated or translation.hypotheses[0].truncated)


def test_no_teacher_learns_what_is_set_aside_to_validate_with(
    corpus: Corpus, small_config: Config, tmp_path: Path, lines: Lines
) -> None:
    place, config = tmp_path / "more", small_config(max_updates=2)
    found = diversify(place, FileSource(*corpus), both(config), lines)
    assert isinstance(found, Diversified)
    train(tmp_path / "plain", FileSource(*corpus), config, lines)
    as_a_training = [Pair(*pair) for pair in kept(tmp_path / "plain/text/valid.jsonl")]
    aside = list(found.source.valid() or ())
    assert aside == as_a_training
    own = list(read_pairs(place / "own.src", place / "own.tgt"))
    assert not {pair.src for pair in own} & {pair.src for pair in aside}
    assert {*own, *aside} == set(read_pairs(*corpus))
    for direction, sides in (("forward", (0, 1)), ("backward", (1, 0))):
        _, data = RunDirectory(place / direction).read_config()
        assert ("turned" in data) == (direction == "backward")
        found_there = [Pair(*pair) for pair in kept(place / direction / "text/valid.jsonl")]
        assert found_there == [Pair(*(pair[side] for side in sides)) for pair in aside]


def test_a_file_of_pairs_keeps_its_line_breaks(
    small_config: Config, corpus: Corpus, tmp_path: Path, lines: Lines
) -> None:
    pairs = [Pair(f"{pair.src}\n{pair.src}", pair.tgt) for pair in read_pairs(*corpus)]
    texts = tmp_path / "texts.jsonl"
    texts.write_text("".join(json.dumps(pair._asdict()) + "\n" for pair in pairs))
    found = diversify(tmp_path / "more", FileSource(texts), both(small_config(max_updates=2)), lines)
    assert isinstance(found, Diversified)
    assert found.source.src == tmp_path / "more/train.jsonl"
    learned = list(found.source.pairs())
    assert learned[: found.own] == [pair for pair in pairs if pair not in set(found.source.valid() or ())]


def test_one_direction_alone_will_do(corpus: Corpus, small_config: Config, tmp_path: Path, lines: Lines) -> None:
    found = diversify(tmp_path / "more", FileSource(*corpus), {"backward": small_config(max_updates=60)}, lines)
    assert isinstance(found, Diversified)
    own = list(found.source.pairs())[: found.own]
    assert {pair.tgt for pair in found.source.pairs()} == {pair.tgt for pair in own}
    assert not (tmp_path / "more/forward").exists()


def test_what_only_repeats_the_text_or_is_cut_short_is_left_out(
    corpus: Corpus, small_config: Config, tmp_path: Path, lines: Lines
) -> None:
    place, order = tmp_path / "more", both(small_config(max_updates=2))
    diversify(place, FileSource(*corpus), order, lines)
    own = list(read_pairs(place / "own.src", place / "own.tgt"))
    made = {
        "forward": ["", "a new one", *(pair.tgt for pair in own[2:])],
        "backward": [*(pair.src for pair in own[:-1]), "another\none"],
    }
    for direction, texts in made.items():
        (place / direction / "translations-00000002.jsonl").write_text(
            "".join(json.dumps(text) + "\n" for text in texts)
        )
    lines.lines.clear(), lines.updates.clear()
    found = diversify(place, FileSource(*corpus), order, lines)
    assert isinstance(found, Diversified)
    new = list(found.source.pairs())[found.own :]
    assert new == [Pair(own[1].src, "a new one"), Pair("another one", own[-1].tgt)]
    assert not [line for line in lines.lines if "translates" in line]
    assert lines.updates == []


def test_an_output_that_was_cut_short_is_not_learned(
    corpus: Corpus, small_config: Config, tmp_path: Path, lines: Lines
) -> None:
    short = {"forward": small_config(max_updates=1)}
    found = diversify(tmp_path / "more", FileSource(*corpus), short, lines)
    assert isinstance(found, Diversified)
    made = kept(tmp_path / "more/forward/translations-00000001.jsonl")
    with Translator.load(tmp_path / "more/forward") as teacher:
        sources = [pair.src for pair in found.source.pairs()][: found.own]
        outputs = teacher.translate(sources, short["forward"].decode)
    assert made == [one.text if usable(one) else "" for one in outputs]
    assert [one for one in outputs if one.text and not usable(one)]


def test_a_teacher_that_is_trained_further_translates_again(
    corpus: Corpus, small_config: Config, tmp_path: Path, lines: Lines
) -> None:
    place, source = tmp_path / "more", FileSource(*corpus)
    for updates in (30, 60):
        found = diversify(place, source, {"forward": small_config(max_updates=updates)}, lines)
        assert isinstance(found, Diversified)
        assert found.teachers["forward"].updates == updates
        made = kept(place / f"forward/translations-{updates:08d}.jsonl")
        new = [pair.tgt for pair in found.source.pairs()][found.own :]
        assert new
        assert set(new) <= set(made)
    assert sum("It translates" in line for line in lines.lines) == 2


def test_a_full_disk_is_told(corpus: Corpus, small_config: Config, tmp_path: Path, lines: Lines) -> None:
    place = tmp_path / "more"
    place.mkdir()
    (place / "own.src.writing").mkdir()
    with pytest.raises(StorageError, match=r"own.src: cannot be written: .*name another --run"):
        diversify(place, FileSource(*corpus), both(small_config(max_updates=1)), lines)
