"""The list of what to check begins with what lost something, and says when a model is not made for the texts."""

from pathlib import Path

from typer.testing import CliRunner

from glassformer.cli.main import app
from glassformer.documents.checklist import DocumentReport, Remark

DOUBT = "the translation is probably wrong (confidence 0.02): the model was unsure which words to write"


def remarks(*said: str) -> list[Remark]:
    return [Remark(line, f"s{line}", "t", one) for line, one in enumerate(said, 1)]


def test_what_lost_something_comes_first_and_doubts_last() -> None:
    kinds = [
        DOUBT, "nothing seems to stand for 'house'", "the term 'house' is not 'Haus'", "%s may stand in a wrong place",
        "the memory: %s is missing", "the number 5 is missing", "left as it was: with its translation the file ...",
    ]  # fmt: skip
    assert [one.line for one in DocumentReport(7, flagged=remarks(*kinds)).checks] == [7, 5, 6, 4, 3, 1, 2]


def test_texts_are_counted_once_by_their_gravest_kind() -> None:
    found = [*remarks(DOUBT, "the sign % is missing"), Remark(2, "s2", "t", DOUBT)]
    assert DocumentReport(10, flagged=found).summary() == (
        "check the 2 that are named above: 1 with something missing, added or in another order, 1 doubtful"
    )
    assert DocumentReport(10).summary() == ""


def test_more_than_half_doubtful_is_said_in_one_sentence() -> None:
    lost = "the sign % is missing"
    assert (
        DocumentReport(3, flagged=remarks(DOUBT, DOUBT))
        .summary()
        .startswith("2 of 3 are doubtful: this model is not")
    )
    mixed = DocumentReport(4, flagged=remarks(DOUBT, DOUBT, DOUBT, lost))
    assert mixed.summary().startswith("check the one that is named above: 1 with something missing, ")
    assert "3 of 4 are doubtful" in mixed.summary()
    assert "not made" not in DocumentReport(4, flagged=remarks(DOUBT, DOUBT, lost, lost)).summary()


def test_doubts_about_most_texts_are_listed_on_request(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("Frobnicate the widget: %s\nDereference quux.\nKludge foobar.\n")
    asked = ["translate", "--input", str(tmp_path / "in.txt"), "--out", str(tmp_path / "out.txt")]
    short = CliRunner().invoke(app, [*asked, "--report", str(tmp_path / "checks.txt")]).stderr
    assert "3 of 3 are doubtful" in short
    assert " check: " not in short
    listed = [line for line in CliRunner().invoke(app, [*asked, "-v"]).stderr.splitlines() if " check: " in line]
    assert (tmp_path / "checks.txt").read_text().splitlines() == listed
    assert len(listed) == 3
