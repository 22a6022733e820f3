"""The preset that the pairs choose, how words are cut, and what a later layer changes."""

from pathlib import Path

import pytest

from glassformer.errors import ConfigError
from glassformer.run_directory import find_members
from glassformer.text.corpus.corpus import Pair
from glassformer.training.request.arguments import TrainRequest
from glassformer.training.request.presets import PRESETS, choose_preset

LETTERS = "abdegiklmn"
WORDS = [f"{one}{two}{three}" for one in LETTERS for two in LETTERS for three in "aeo"]


def request(path: Path, rows: list[str], *overrides: str, columns: str | None = None, **more: str) -> TrainRequest:
    (path / "a.train").write_text("".join(f"{row}\n" for row in rows))
    data = {"pairs": str(path / "a.train"), "columns": columns}
    return TrainRequest.make(run=path / "run", data=data, overrides=overrides, **more)


def test_words_choose_the_preset_for_words_and_say_why(tmp_path: Path) -> None:
    found = request(tmp_path, [f"{word}\t{' '.join(word)}" for word in WORDS])
    assert found.preset.name == "words"
    assert found.preset.reason.startswith("Preset words: 100 % of the sources are one word or the symbols of one")
    text = found.config.text
    assert (text.kinds, text.joint, text.marked, text.decompose) == (("characters", "symbols"), False, False, False)
    assert text.joined == 5, "few pairs"
    assert found.config.train.metric == "exact_match"
    assert found.config.model.tie_embeddings == "target"


def test_features_and_hangul_decide_how_characters_are_cut(tmp_path: Path) -> None:
    found = request(tmp_path, [f"{word}\t{word}s\tN;PL" for word in WORDS], columns="1+3:2").config.text
    assert (found.kinds, found.marked) == (("characters", "characters"), True)
    korean = request(tmp_path, [f"{chr(0xAC00 + 28 * n)}다\tt a" for n in range(300)]).config.text
    assert (korean.kinds, korean.decompose) == (("characters", "symbols"), True)


def test_sentences_and_few_different_words_keep_the_defaults(tmp_path: Path) -> None:
    sentences = [f"A man has {word} in his hand.\tEin Mann hat {word}." for word in WORDS]
    for rows in (sentences, ["ab\ta b"] * 300):
        found = request(tmp_path, rows)
        assert (found.preset.name, found.preset.reason) == ("sentences", "")
        assert found.config.text.kinds == ("bpe", "bpe")


def test_what_is_named_wins_over_the_preset(tmp_path: Path) -> None:
    rows = [f"{word}\t{' '.join(word)}" for word in WORDS]
    assert request(tmp_path, rows, preset="sentences").config.text.kinds == ("bpe", "bpe")
    one_kind = request(tmp_path, rows, "text.tokenizer=characters").config.text
    assert (one_kind.kinds, one_kind.joint) == (("characters", "characters"), True)
    assert request(tmp_path, rows, "train.batch_tokens=99").config.train.batch_tokens == 99
    with pytest.raises(ConfigError, match=r"--preset: there is no preset 'wordz'\. Did you mean 'words'"):
        choose_preset("wordz", [Pair("a", "b")])


def test_each_preset_makes_a_request(tmp_path: Path) -> None:
    for name, preset in PRESETS.items():
        found = request(tmp_path, [f"{word}\t{' '.join(word)}" for word in WORDS], preset=name)
        assert found.preset.reason == f"Preset {name}: {preset.summary}."


def test_an_ensemble_has_a_seed_and_a_directory_for_each_model(tmp_path: Path) -> None:
    found = request(tmp_path, [f"{word}\t{' '.join(word)}" for word in WORDS])
    assert found.members(1) == [found]
    members = found.members(3)
    assert [one.run.name for one in members] == ["seed-1", "seed-2", "seed-3"]
    assert [one.config.train.seed for one in members] == [1, 2, 3]
    for one in members:
        one.run.mkdir(parents=True)
    assert find_members(found.run) == [one.run for one in members]
    assert find_members(members[0].run) == [members[0].run]
