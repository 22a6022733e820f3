"""How many placeholders survive a translation: 200 sentences, 20 of each form, with the bundled model or another.

    python benchmarks/placeholders.py [--run DIR] [--show] [--json FILE]

A sentence is intact if it holds every placeholder exactly as often as its source, flagged if something is reported to
look at. None may be lost without a flag.
"""

import re
import tempfile
from collections import Counter
from pathlib import Path

from machine import machine
from smoke import new_parser, parse_options, write_json

from glassformer import Translator
from glassformer.documents import FileTranslator
from glassformer.documents.checklist import DOUBTFUL
from glassformer.text.codes.checks import changes
from glassformer.text.codes.code import Code
from glassformer.text.codes.find import find_codes

# What stands for a thing, a person, or a count in a sentence.
THINGS = [
    "I have %.", "Do you see %?", "He bought % yesterday.", "Where is %?", "We need % today.", "% is very old.",
    "I don't like %.", "She reads % every day.", "Can you help % now?", "Please wait for %.", "I know % well.",
    "This is %.", "Tell % the truth.", "He lives near %.", "Who is %?", "I came with %.", "They love %.",
    "Don't forget %!", "I was looking for %.", "% is not here.",
]  # fmt: skip
COUNTS = [
    "I have % books.", "There are % people here.", "He is % years old.", "We have % minutes.", "She bought % apples.",
    "I saw % dogs.", "It costs % dollars.", "The train leaves in % minutes.", "I need % chairs.",
    "He has % children.", "We waited % hours.", "They won % games.", "She wrote % letters.", "He ate % eggs.",
    "I drank % cups of tea.", "There are % rooms.", "I know % words.", "It takes % days.", "We met % times.",
    "You have % new messages.",
]  # fmt: skip
TAGGED = [
    "I <b>love</b> you.", "<b>Please</b> wait here.", "He is my <i>brother</i>.", "Open the <b>door</b>!",
    "This is <em>very</em> important.", '<a href="/x">Click here</a> now.', "I have <b>no time</b> today.",
    "She is <strong>not</strong> at home.", "We <u>must</u> go.", "<i>Where</i> is my book?",
    "Tom is a <b>good</b> man.", "The <b>water</b> is cold.", "I saw <i>him</i> yesterday.",
    "He came <b>too late</b>.", "Do you speak <b>German</b>?", "<b>It is raining.</b>", "I need your <b>help</b>.",
    "My <span class=\"a\">father</span> is old.", "The <b>dog</b> sleeps in my <i>bed</i>.", "Never <b>give up</b>!",
]  # fmt: skip
FORMS: dict[str, list[str]] = {
    "%d": [text.replace("%", "%d") for text in COUNTS],
    "%(count)d": [text.replace("%", "%(count)d") for text in COUNTS],
    "%s": [text.replace("%", "%s") for text in THINGS],
    "{name}": [text.replace("%", "{name}") for text in THINGS],
    "{0}": [text.replace("%", "{0}") for text in THINGS],
    "$VAR": [text.replace("%", "$FILE_NAME") for text in THINGS],
    "URL": [text.replace("%", "https://example.org/a?b=1") for text in THINGS],
    "e-mail": [text.replace("%", "info@example.org") for text in THINGS],
    "number": [text.replace("%", str(17 + 13 * index)) for index, text in enumerate(COUNTS)],
    "tag": TAGGED,
}


def placeholders_of(text: str) -> Counter[str]:
    return Counter(part.raw for part in find_codes((text,)) if isinstance(part, Code))


def lost_number(text: str, output: str) -> bool:
    """Whether the output lacks a number of the text."""
    return any(re.match("the number .* is missing", found) for found in changes((text,), (output,)))


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--run", type=Path, help="a run directory; by default the bundled model")
    parser.add_argument("--show", action="store_true", help="print every translation")
    options = parse_options(parser, "", kept="placeholders.json")
    results = {}
    with (
        tempfile.TemporaryDirectory() as scratch,
        Translator.load(*([options.run] if options.run else [])) as translator,
    ):
        source, target = Path(scratch, "in.txt"), Path(scratch, "out.txt")
        for form, texts in FORMS.items():
            source.write_text("\n".join(texts), encoding="utf-8")
            report = FileTranslator(translator).translate(source, target)
            outputs = target.read_text("utf-8").split("\n")
            # Whether a translation is good is another question than whether its placeholders are intact.
            flagged = {one.line for one in report.flagged if one.kind != DOUBTFUL}
            kept = [
                placeholders_of(text) == placeholders_of(output) and not lost_number(text, output)
                for text, output in zip(texts, outputs, strict=True)
            ]
            numbers = range(1, len(texts) + 1)
            results[form] = {
                "sentences": len(texts),
                "intact_and_unflagged": sum(ok and n not in flagged for n, ok in zip(numbers, kept, strict=True)),
                "intact_and_flagged": sum(ok and n in flagged for n, ok in zip(numbers, kept, strict=True)),
                "lost_and_flagged": sum(not ok and n in flagged for n, ok in zip(numbers, kept, strict=True)),
                "lost_without_a_flag": sum(not ok and n not in flagged for n, ok in zip(numbers, kept, strict=True)),
            }
            print(f"{form:10} {results[form]}")
            if options.show:
                for number, text, output in zip(numbers, texts, outputs, strict=True):
                    print(f"  {'?' if number in flagged else ' '} {text}  ->  {output}")
    total = {key: sum(row[key] for row in results.values()) for key in next(iter(results.values()))}
    print(f"{'all':10} {total}")
    report_json = {"machine": machine(), "run": str(options.run or "bundled"), "forms": results, "all": total}
    write_json(options.json, report_json)


if __name__ == "__main__":
    main()
