"""A translation that lacks something of its source is flagged, and few others."""

import gzip
import random
from dataclasses import replace
from pathlib import Path

import pytest
from sacrebleu.metrics import CHRF

from benchmarks.word_translator import Permuting
from glassformer import Translator
from glassformer.decoding.restore.alignment import attends_to_all, content_doubts
from glassformer.decoding.translation import Hypothesis, Translation
from glassformer.documents import FileTranslator

PAIRS = Path(__file__).parents[3] / "shared" / "data" / "tatoeba" / "en-de.tsv.gz"


class Dropping(Permuting):
    """Leaves out the last word."""

    def _translate(self, text: str) -> Translation:
        translation = super()._translate(text)
        best = translation.hypotheses[0]
        assert best.attention is not None
        text = self.tgt_tokenizer.to_text(best.ids[:-1])
        cut = replace(
            best, text=text, ids=best.ids[:-1], tokens=best.tokens[:-1], attention=best.attention[:, :, :-1]
        )
        return replace(translation, hypotheses=[cut])


def test_a_word_that_no_word_of_the_output_attends_to_is_named(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("The house is wonderful\nI do so\n")
    report = FileTranslator(Dropping(None, "x")).translate(tmp_path / "in.txt", tmp_path / "out.txt")  # type: ignore[arg-type]
    assert [(one.line, one.remark) for one in report.flagged] == [(1, "nothing seems to stand for 'wonderful'")]


def test_a_search_that_saw_attention_to_every_word_needs_no_other_look() -> None:
    def told(*received: float) -> bool:
        best = Hypothesis("Das Haus", [], [], 0.0, 0.0, False, received=received)
        return attends_to_all(Translation("The house", [], False, [best]), lambda _: ([3, 9], []))

    assert told(0.9, 0.8, 0.3)
    assert not told(0.9, 0.1, 0.3)
    assert not told()
    assert not told(0.9, 0.8, 0.3, 0.9, 0.8, 0.3)  # of two sentences


def cut_off(translator: Translator, translation: Translation, share: float) -> Translation:
    """The same without its end."""
    best = translation.hypotheses[0]
    count = max(2, int(share * len(best.ids)))
    assert best.attention is not None
    ids, text = best.ids[:count], translator.tgt_tokenizer.to_text(best.ids[:count])
    short = replace(best, text=text, ids=ids, tokens=best.tokens[:count], attention=best.attention[:, :, :count])
    return replace(translation, hypotheses=[short])


@pytest.mark.slow
@pytest.mark.skipif(not PAIRS.exists(), reason=f"{PAIRS} is not there")
def test_few_good_translations_are_doubted_and_many_without_their_end() -> None:
    lines = gzip.decompress(PAIRS.read_bytes()).decode().splitlines()
    pairs = [line.split("\t")[:2] for line in random.Random(5).sample(lines, 1200)]
    with Translator.load() as translator:
        whole = translator.config.with_changes({"split_sentences": False})  # what is joined has no attention
        found = translator.translate([src for src, _ in pairs], whole, attention=True)

        def is_doubted(translation: Translation) -> bool:
            ends, read = translator._sentences._token_ends, replace(translation, source=translation.read)
            return bool(content_doubts(read, translator.confidence, ends))

        scores = [CHRF().sentence_score(one.text, [tgt]).score for one, (_, tgt) in zip(found, pairs, strict=True)]
        good = [one for one, score in zip(found, scores, strict=True) if score >= 50]
        cut = [cut_off(translator, one, 0.5 + 0.1 * (number % 3)) for number, one in enumerate(found)
               if len(one.hypotheses[0].ids) >= 6]  # fmt: skip
        assert sum(map(is_doubted, good)) < 0.01 * len(good)
        assert sum(map(is_doubted, cut)) > 0.25 * len(cut)
