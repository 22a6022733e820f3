"""What a training says of its result, in words and on a page."""

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from glassformer.run_directory import RunDirectory
from glassformer.settings import RunConfig
from glassformer.training.evaluation.results import Example
from glassformer.training.reporting.diagnosis import Shares, advise, count_errors, describe
from glassformer.training.reporting.report import _ticks, make_report, read_metrics
from glassformer.training.request.arguments import TrainRequest
from glassformer.training.request.data import FileSource
from glassformer.training.request.defaults import describe_settings
from glassformer.training.train import train

EXACT = Example("Yes.", "Ja.", "Ja.")
NEAR = Example("The dog sleeps.", "Der Hund schlief.", "Der Hund schläft.")


@pytest.mark.parametrize(
    ("output", "reference", "error"),
    [
        ("Ich habe 3 Hunde.", "Ich habe 4 Hunde.", "a number is wrong"),
        ("das ist das ist das ist gut", "das ist gut", "words are repeated"),
        ("Der Mann", "Der Mann geht heute in die Stadt.", "the end or a part is missing"),
        ("Der Mann geht heute", "Der Mann", "something is added"),
        ("Alle Katzen sind grau", "Der Mann geht heute", "it says something else"),
        ("Der house ist alt", "Das Haus ist alt", "words are left untranslated"),
        ("Der Hund schlief.", "Der Hund schläft.", "single words are wrong or in another order"),
        ("TomTomTomTom", "Tom ist da.", "words are repeated"),
        ("Hahahahahahaha ja", "Hahahahahahaha nein", "single words are wrong or in another order"),
        ("Um 3:30 Uhr im Haus", "Um halb vier im Haus", "single words are wrong or in another order"),
        ("东西很好很好很好很好", "东西很好", "words are repeated"),
        ("他今", "他今天不在家里吃饭", "the end or a part is missing"),
        ("他明天不在家里吃饭", "他今天不在家里吃饭", "single words are wrong or in another order"),
    ],
)
def test_each_error_has_its_name(output: str, reference: str, error: str) -> None:
    example = Example("The house is old", output, reference)
    assert count_errors([example, EXACT]) == {error: [example]}


def test_wrong_parts_are_those_that_must_change() -> None:
    assert [one.wrong_parts for one in (EXACT, NEAR)] == [0, 1]
    assert Example("", "a b", "a x y b").wrong_parts == 2
    assert Example("", "", "a b c").wrong_parts == 3
    bad = Example("", "a b c", "d e f")
    assert [Example("", "", "Mach mit!").is_near, Example("", "a b x", "a b c").is_near] == [False, True]
    assert Shares.count([EXACT, NEAR, bad, bad]) == Shares(1, 1, 4)
    assert Example("", "他明天不在家", "他今天不在家").is_near  # each character is a word


@pytest.mark.parametrize(
    ("good", "meaning"),
    [(10, "no more than a look"), (6, "writes drafts"), (3, "most need work"), (1, "not of use yet")],
)
def test_the_share_of_good_sentences_has_a_meaning(good: int, meaning: str) -> None:
    line = Shares(good, 0, 10).line()
    assert meaning in line
    assert "a rough picture only" in line
    assert "rough" not in Shares(10 * good, 0, 100).line()


def curve(*losses: float) -> list[dict[str, Any]]:
    return [{"update": 10 * number, "valid_loss": loss} for number, loss in enumerate(losses, 1)]


def test_sentences_that_are_in_the_training_text_too_are_not_called_unseen() -> None:
    (line, *_) = describe([EXACT], [], 90)
    assert "which this training has not seen" in line
    (line, *_) = describe([EXACT], [], 90, seen=3)
    assert "has not seen" not in line
    assert "3 have a source that the model has learned from" in line
    assert (
        len(describe([EXACT], curve(5, 3), 90, loss_is_comparable=False))
        == len(describe([EXACT], curve(5, 3), 90)) - 1
    )


def test_an_example_shows_letters_and_spaces_as_they_are_and_is_cut_to_the_screen():
    text = "A\xa0ß می\u200cروم \x1b[31m\u202e"
    line = describe([Example("a", text, "b")], [], 90)[2]
    assert "'A\xa0ß می\u200cروم \\x1b[31m\\u202e' for 'a'" in line
    assert '"it\'s" for' in describe([Example("a", "it's", "b")], [], 90)[2]
    line = describe([Example("Roll the dice.", "no " * 300, "Würfel!")], curve(5, 3), 900)[2]
    assert "n…' for 'Roll the dice.', expected 'Würfel!'" in line
    assert len(line) < 200


def test_a_loss_that_no_longer_falls_asks_for_pairs() -> None:
    assert "more minutes will help" in advise(curve(5, 4, 3, 2.9, 2.5, 2.4), 900)
    assert "its 900 pairs teach. More pairs will help more than more minutes." in advise(
        curve(5, 3, 2, 2, 2.1, 2.2), 900
    )
    assert "too short to say" in advise(curve(5, 3), 900)
    assert "too short to say" in advise([{"update": 1, "loss": 3.0}], 900)


class Page(HTMLParser):
    """Counts what a page refers to, and its elements."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]


def made(examples: list[Example], records: list[dict[str, Any]], counts: dict[str, int]) -> str:
    facts = {"date": "2026-01-02", "command": "glassformer train <x>"}
    return make_report(
        "A <run>", headline="BLEU 45.1 on 3", facts=facts, lines=describe(examples, records, 90), examples=examples,
        records=records, counts=counts,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (2.0, 5.0, ["2", "3", "4", "5"]),
        (0.871, 0.874, ["0.871", "0.872", "0.873", "0.874"]),
        (0.87, 0.87, ["0.8700", "0.8705"]),
        (0.0, 63.2, ["0", "50", "100"]),
        (11.8, 43.9, ["0", "20", "40", "60"]),
        (1e5, 1e5, ["100000", "100050"]),
    ],
)
def test_the_axis_of_a_curve_has_round_numbers_that_differ(low: float, high: float, ticks: list[str]) -> None:
    found, digits = _ticks(low, high)
    assert [f"{tick:.{digits}f}" for tick in found] == ticks
    assert found[0] <= low <= high <= found[-1]


def test_a_word_alike_in_both_languages_is_not_left_untranslated() -> None:
    one = Example("My computer is old", "Mein computer ist alt", "Mein Rechner ist alt")
    other = Example("A computer", "Ein Computer", "Ein Computer")
    assert count_errors([one]) == {"words are left untranslated": [one]}
    assert count_errors([one, other]) == {"single words are wrong or in another order": [one]}


def test_the_page_is_whole_and_safe() -> None:
    evil = Example("<script>x</script>", "a & b", "c < d")
    records = [{**one, "valid_chrf": 10.0 * number} for number, one in enumerate(curve(5, 4, 3, 2))]
    counts = {"read": 100, "kept": 90, "valid": 5, "empty": 3, "too_long": 0, "lopsided": 2, "repeats": 0}
    examples = [EXACT, NEAR, evil]
    page = Page(text := made(examples, records, counts))
    assert page.links == []
    assert page.tags.count("svg") == 2
    assert "script" not in page.tags
    assert "3: a side is empty" in text
    assert "too long" not in text
    assert "the model learned from 90" in text
    assert re.search(r"<td>1 to 5</td><td class=\"n\">3</td><td class=\"n\">1</td>", text)


@pytest.mark.slow
def test_a_training_ends_with_words_and_a_page(corpus, small_config, tmp_path, lines):
    outcome = train(TrainRequest(tmp_path / "run", FileSource(*corpus), small_config()), lines)
    assert outcome.final is not None
    held_out = len(outcome.final.examples)
    assert held_out == outcome.final.scores.sentences > 10
    text = "\n".join(lines.lines)
    assert f"Of {held_out} held-out words, which this training has not seen, " in text
    assert "Chosen for 383 pairs: 1 + 1 layers of width 32" in text
    assert "ppl (among how many symbols it hesitates)" in text
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert f"400 pairs were read; the model learned from 383, and {held_out} were held out." in page
    run = RunDirectory(tmp_path / "run")
    with run.metrics_file.open("a") as file:
        file.write('{"update": 2')  # as a killed process leaves it
    assert read_metrics(run)[-1]["update"] == 20


def test_damaged_records_are_left_out(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    damaged = [
        '{"updade": 2, "valid_loss": 1}', '{"update": "x"}', '{"update": 1e999}', "[" * 100_000, "[1]", "\xff", "{",
    ]  # fmt: skip
    run.metrics_file.write_text(
        "\n".join(['{"update": 1, "valid_loss": 2}', *damaged, '{"update": 3, "valid_loss": NaN}'])
    )
    records = read_metrics(run)
    assert records == [{"update": 1, "valid_loss": 2}, {"update": 3}]
    assert advise(records, 5)


@pytest.mark.parametrize(("name", "dropout"), [("micro", 0.2), ("tiny", 0.3)])
def test_only_defaults_are_given_reasons(name: str, dropout: float) -> None:
    config = RunConfig.from_mapping({"model": {"name": name}})
    line = describe_settings(config, 5000, reasons=True)
    assert "cost" not in describe_settings(config, 5000)
    assert f"dropout {dropout} (against learning few pairs by heart)" in line
    assert ("4 + 4 cost" in line) == (name == "micro")
    assert "8,000 entries (one for each pair" in line
    grown = RunConfig.from_mapping({"model": {"name": name, "src_vocab": 1200, "tgt_vocab": 1200}})
    assert "one for each pair" not in describe_settings(grown, 5000, reasons=True)  # pairs were added since
    model = {"name": name, "dropout": 0.1, "n_encoder_layers": 3}
    config = RunConfig.from_mapping({"model": model, "text": {"vocab_size": 700}})
    line = describe_settings(config, 5000, reasons=True)
    assert "dropout 0.1; " in line
    assert "one for each pair" not in line
    assert "4 + 4 cost" not in line
    config = RunConfig.from_mapping({"model": {"name": name}, "text": {"tokenizer": "characters"}})
    line = describe_settings(config, 5000, reasons=True)
    assert "BPE" not in line
    assert "one for each pair" not in line
