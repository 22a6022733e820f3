"""Each scoring, worked by hand or compared with sacrebleu."""

import math

import pytest
import sacrebleu

from benchmarks.reproduce.evaluate import SCORINGS, FormConverter, compare, convert_form, find_scoring, score_all
from glassformer.errors import TextError
from glassformer.text import Tokenizer

REFERENCES = ["ein mann schläft auf der bank .", "zwei hunde &quot; rex &quot; laufen ."]
OUTPUTS = ["ein mann schläft auf der wiese .", "zwei hunde laufen ."]


def test_the_published_metric_by_hand() -> None:
    """Precisions (6 + 4)/11, (4 + 2)/9, 3/7 and 2/5, and 11 words for 13: counted on paper."""
    references = ["ein mann schläft auf der bank .", "zwei hunde rennen und laufen ."]
    found = find_scoring("tokenised").score(OUTPUTS, references)
    assert found.precisions == pytest.approx([100 * 10 / 11, 100 * 6 / 9, 100 * 3 / 7, 100 * 2 / 5])
    assert (found.words, found.reference_words) == (11, 13)
    assert found.brevity_penalty == pytest.approx(math.exp(1 - 13 / 11))
    mean_log = sum(map(math.log, (10 / 11, 6 / 9, 3 / 7, 2 / 5))) / 4
    assert found.score == pytest.approx(100 * math.exp(1 - 13 / 11) * math.exp(mean_log))
    assert found.signature.startswith("nrefs:1|case:mixed|eff:no|tok:none|smooth:none|version:")


def test_detokenised_ways_are_sacrebleus_with_and_without_case() -> None:
    references, outputs = ["Ein Mann, der schläft, liegt."], ["ein mann, der schläft, liegt."]
    found = score_all({"raw": outputs}, {"raw": references})
    assert found.keys() == {"caseless", "cased"}
    assert found["caseless"].score == pytest.approx(100)
    assert found["cased"].score == pytest.approx(sacrebleu.corpus_bleu(outputs, [references]).score)
    assert found["cased"].score < 70
    assert ("case:lc" in found["caseless"].signature, "tok:13a" in found["cased"].signature) == (True, True)


def test_the_mean_of_sentences_and_pieces_by_hand():
    """One sentence right, of the other 3/4, 2/3, 1/2 and 0.1/1, as nltk's method1 has it."""
    second = 100 * (3 / 4 * 2 / 3 * 1 / 2 * 0.1) ** 0.25
    found = find_scoring("sentences").score(["a b c d e", "a b c x"], ["a b c d e", "a b c d"])
    assert found.score == pytest.approx((100 + second) / 2)
    assert found.signature.endswith("|mean of sentences")
    tokenizer = Tokenizer.train("characters", REFERENCES, 60)
    assert FormConverter("tokenised", None, tokenizer).convert(["ein m"]) == {
        "tokenised": ["ein m"],
        "pieces": ["e i n ▁ m"],
    }


@pytest.mark.parametrize(("outputs", "references"), [(["a"], ["a", "b"]), ([], [])])
def test_lines_that_do_not_match_are_refused(outputs: list[str], references: list[str]) -> None:
    with pytest.raises(TextError, match="expected equal numbers"):
        SCORINGS[0].score(outputs, references)


def test_moses_rules_lead_there_and_back() -> None:
    pytest.importorskip("sacremoses")
    from benchmarks.reproduce.evaluate import Moses

    raw = ['Ein Mann, der "Hallo" sagt.', "Das saftig-grüne Gras ."]
    tokenised = ["ein mann , der &quot; hallo &quot; sagt .", "das saftig-grüne gras ."]
    assert convert_form("raw", raw, Moses("de")) == {"tokenised": tokenised}
    assert convert_form("tokenised", tokenised, Moses("de")) == {
        "raw": ['ein mann, der "hallo" sagt.', "das saftig-grüne gras."]
    }


def test_the_bootstrap_tells_a_real_difference_from_chance() -> None:
    references = [f"das ist satz nummer {number} von hier ." for number in range(60)]
    good = [text if number % 5 else "ganz anders hier" for number, text in enumerate(references)]
    alike = [text if (number + 1) % 5 else "ganz anders hier" for number, text in enumerate(references)]
    bad = [text if number % 2 else "ganz anders hier" for number, text in enumerate(references)]
    found = compare(find_scoring("tokenised"), {"1": good, "2": alike, "3": bad}, references, resamples=200)
    p = {(row["first"], row["second"]): row["p"] for row in found["pairs"]}
    assert p.keys() == {("1", "2"), ("1", "3"), ("2", "3")}
    assert p["1", "2"] > 0.2
    assert p["1", "3"] < 0.05
    score = find_scoring("tokenised").score(good, references).score
    assert abs(found["redrawn"]["1"]["mean"] - score) < found["redrawn"]["1"]["interval"] < 20
    assert "bs:200" in found["signature"]
