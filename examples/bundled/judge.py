"""What a model answers to the 120 typed texts, for a person to judge, and what the verdicts come to.

    python examples/bundled/judge.py bundled glassformer/bundled/en-de

writes examples/bundled/verdicts/NAME.tsv: a line for each text with its kind, the text, the answer, the reason if it
is flagged, and two verdicts, to be filled in by the rules of ``typed_sentences.py`` in two passes, the second without
a look at the first. A verdict is right, usable or wrong. Called again, it keeps the verdicts of answers that
are the same, and prints the table of the kinds. Where both passes differ the worse one counts.
"""

import argparse
import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from typed_sentences import TYPED

from glassformer import Translator

VERDICTS = Path(__file__).parent / "verdicts"
GRADES = ("right", "usable", "wrong")
COLUMNS = ("kind", "source", "answer", "flag", "verdict 1", "verdict 2")


@dataclass(frozen=True)
class Judged:
    """An answer, the reason if it was flagged, and the verdict of each pass; an empty one was not given yet."""

    kind: str
    source: str
    answer: str
    flag: str
    verdicts: tuple[str, str] = ("", "")

    @property
    def grade(self) -> str:
        """The worse of both verdicts; empty without one."""
        return max(self.verdicts, key=lambda verdict: GRADES.index(verdict) if verdict else -1)

    @property
    def differs(self) -> bool:
        """Whether the passes disagree."""
        return "" not in self.verdicts and len(set(self.verdicts)) > 1


def read_verdicts(name: str) -> list[Judged]:
    """What was judged of a model; empty if nothing was. Exits for a word that is no verdict."""
    path = VERDICTS / f"{name}.tsv"
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, dialect="excel-tab", quoting=csv.QUOTE_NONE))
    for number, row in enumerate(rows, start=2):
        for verdict in (row["verdict 1"], row["verdict 2"]):
            if verdict not in ("", *GRADES):
                raise SystemExit(f"{path}:{number}: found {verdict!r}, expected {', '.join(GRADES)} or nothing.")
    return [Judged(*(row[name] for name in COLUMNS[:4]), (row["verdict 1"], row["verdict 2"])) for row in rows]


def write_verdicts(name: str, judged: Iterable[Judged]) -> Path:
    """Write them, a line each."""
    VERDICTS.mkdir(exist_ok=True)
    path = VERDICTS / f"{name}.tsv"
    lines = [COLUMNS, *((one.kind, one.source, one.answer, one.flag, *one.verdicts) for one in judged)]
    path.write_text("".join("\t".join(line) + "\n" for line in lines), encoding="utf-8", newline="\n")
    return path


def answer(run: Path, known: Sequence[Judged]) -> list[Judged]:
    """The answers of a run, with the verdicts of those that are known."""
    verdicts = {(one.source, one.answer): one.verdicts for one in known}
    texts = [(kind, source) for kind, sources in TYPED.items() for source in sources]
    with Translator.load(run, device="cpu") as translator:
        found = translator.translate([source for _, source in texts])
    return [
        Judged(
            kind, source, one.text, one.doubt.text if one.doubt is not None else "",
            verdicts.get((source, one.text), ("", "")),
        )
        for (kind, source), one in zip(texts, found, strict=True)
    ]  # fmt: skip


def summarize(judged: Sequence[Judged]) -> dict[str, int]:
    """How many are of each grade, and how many of these are flagged."""
    of_grades = {grade: [one for one in judged if one.grade == grade] for grade in GRADES}
    flags = {f"{grade} flagged": sum(bool(one.flag) for one in found) for grade, found in of_grades.items()}
    return {**{grade: len(found) for grade, found in of_grades.items()}, **flags}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="of the file with verdicts: bundled, previous ...")
    parser.add_argument("run", type=Path, help="a run directory")
    options = parser.parse_args()
    judged = answer(options.run, read_verdicts(options.name))
    print(write_verdicts(options.name, judged))
    for kind in (*TYPED, ""):
        counts = summarize([one for one in judged if one.kind == kind or not kind])
        print(f"{kind or 'all':16}", ", ".join(f"{count} {name}" for name, count in counts.items()))


if __name__ == "__main__":
    main()
