"""The text of the bundled model's card, from its files and from what was measured of them.

    python examples/bundled/card.py

It is written again from benchmarks/results/bundled.json, without a measurement; a test holds the card to it.
"""

import re
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import typed_sentences
from first_sentences import SENTENCES
from judge import GRADES, Judged, read_verdicts, summarize
from measure import read_results
from typed_sentences import TYPED

from glassformer.bundled import BUNDLED
from glassformer.run_directory import LoadedRun, RunDirectory

WIDTH = 118
WHOLE = {"break_long_words": False, "break_on_hyphens": False}
FIRST = "I love you, too."
TEMPLATE = """\
# The bundled English-German model

<!-- Written by examples/bundled/card.py from these files and their scores: change card.py instead. -->

A small encoder-decoder Transformer that translates English sentences into German. It ships with glassformer, so that
you can translate and trace before you have trained anything. It is an example to study, not a translator to rely on.

```sh
glassformer translate "{first}"
glassformer trace "{first}"
glassformer summary
```

In Python it is `Translator.load()`.

## What it is

{architecture}

Its matrices are stored as int8 rows with a scale each, and computed with in float32. {sizes}
The other files hold every setting, the counters of the training, the confidence and SHA-256 sums.

## Data and attribution

- **Tatoeba**: 182,676 pairs of English sentences and German translations, written by the contributors of
  [Tatoeba](https://tatoeba.org), collected by [manythings.org/anki](https://www.manythings.org/anki/) and published
  under the [Creative Commons Attribution 2.0 France licence](https://creativecommons.org/licenses/by/2.0/fr/)
  (CC BY 2.0 FR). They were changed: split into training, validation and test pairs; a tenth of the training pairs
  repeated without the final punctuation mark; joined to longer lines; since the third training, sources changed as
  people type, and names, numbers, dates and times replaced on both sides.
- **Phrasebook**: glassformer's own task `phrasebook-de`: dates, times, amounts, units and lists of names in English
  and German, as the [Unicode CLDR](https://cldr.unicode.org) words them, generated with
  [Babel](https://babel.pocoo.org) (Unicode License v3).
- **Written pairs**: 27,673 sentences, phrases and words with their translations, written for this model by the
  glassformer authors (`examples/bundled/written.tsv`, Apache License 2.0): what people type first, daily life,
  times, letters and messages, news, speech and sayings, grammar, stories, work and study, and English with typing
  mistakes. They were written without a look at the texts below, and 112 that are like one of them or like a held-out
  pair were left out. The first 9,940 were learned in the fourth and fifth training, each four times; 23,312 in the
  sixth, each three times; 27,478 in the seventh, each three times, but single words and times of day thirty times;
  all in the last, where sentences with *because it*, in which a pronoun has to fit its noun, are thirty times, too,
  which is what `pairs.py` writes today.

The model learned from {n_wide} pairs: {n_train} of Tatoeba, whose sources have {median_words} words in the median
and {most_words} at most, what was made from them, the phrasebook and the written pairs. {n_valid} pairs chose each
model but the last, and fitted the confidence. {n_test} are held out for the scores below: no source and no target of
theirs is in training, nor one with the same words but for case, punctuation and names. Tatoeba's sentences are not
part of glassformer.

## How it was made

```sh
python examples/bundled/pairs.py en-de-large.tsv.gz build/face
OMP_NUM_THREADS=1 glassformer train --config examples/bundled/train.toml
OMP_NUM_THREADS=1 glassformer train --config examples/bundled/continue.toml
OMP_NUM_THREADS=1 glassformer train --config examples/bundled/typed.toml
OMP_NUM_THREADS=1 glassformer train --config examples/bundled/wide.toml
OMP_NUM_THREADS=1 glassformer train --config examples/bundled/again.toml
OMP_NUM_THREADS=1 glassformer train --config examples/bundled/more.toml
OMP_NUM_THREADS=1 glassformer train --config examples/bundled/words.toml
glassformer average --run build/face/words --last 3
OMP_NUM_THREADS=1 glassformer train --config examples/bundled/pronouns.toml
glassformer average --run build/face/pronouns --last 1
{trial_commands}python examples/bundled/pack.py build/face/pronouns
```

Each line of `en-de-large.tsv.gz` has an English sentence of Tatoeba, a tab, and its German translation. An
interrupted command continues when it is given again.{trial}

The last training is kept as it ended. Validation alone would have kept the model before it (loss 1.062, then
1.069), and the score on the held-out pairs had been seen when the choice was made: it is slightly selected.

Each training after the first started from the packed files of the model before. Each was done once, with one seed and
one CPU thread, PyTorch {torch}, while other programs ran as well.

{training}

## Scores

Of the files in this directory, on the {n_test} held-out pairs with one reference each, by the words of the source;
{search}.

{scores}

- BLEU is {bleu}.
- chrF is {chrf}.
- Rounding to int8 costs {int8}.
- The model before is that of the second training, without noise and without the written pairs.

Most of Tatoeba's sentences have many correct translations (*you* is *du*, *ihr* or *Sie*), and the reference is
one.

## Does it know when it is wrong?

{confidence}

A warning has a reason: the first that applies. The table counts the reasons for twenty texts of each kind
(`examples/bundled/reasons.py`); *none* is no warning.

{reasons}

## A hundred and twenty texts as people type them

They were written in twelve kinds before the training with noise (`examples/bundled/typed_sentences.py`), and none
was changed or left out. Two judges graded each answer, in a random order among those of earlier models, without the
name of the model or its warning. Where the two differ, the worse grade counts. An answer that a later model gives,
too, keeps its grades; the 22 that are new since the last training were graded by one of us, who knew the model. The
rules:

{rules}

The model before read the texts as they were. Now a text in capitals, or one that begins in lower case, is read as a
sentence, emoji are left out, and each sentence is translated by itself. In brackets: how many answers it warned of.

{typed}

{typed_total}

BLEU and chrF of both models on the held-out pairs, changed as training pairs are (`examples/bundled/measure.py`). The
names are from the same list as in training; there are too few pairs with numbers for a conclusion.

{noisy}

All answers of this model:

{typed_answers}

## Sixty sentences that people type first

They were written before the training ({first_file}); no answer was left out. {known} The last column is the model
before this one.{doubted}

{examples}

## Limits

- It translates everyday sentences of the kind that language learners write, and most of the phrases above. It
  often gets rare words, rare names, long sentences and texts of other kinds wrong, and writes something all the same:
  see its confidence.
- English *you* becomes *du*, *ihr* or *Sie*, and a past tense becomes perfect or preterite, without a rule.
- Each sentence is translated by itself, without a look at the others. `--no-split-sentences` translates a line as a
  whole: it learned lines of one or two sentences and leaves out most of a longer one.
- It gets news mostly wrong, idioms half of the time, texts with typing mistakes in four of ten, paragraphs in three.
  It warns of about a third of its bad answers to test pairs, and of two fifths of the wrong ones to the texts above.
- {single_words}
- It reproduces its data, including mistakes and stereotypes. Do not use it where a wrong translation could cause
  harm.

## Licence

The weights are part of glassformer and licensed under the Apache License 2.0. They were trained on Tatoeba's
sentences: if you distribute them, name Tatoeba and its contributors, https://tatoeba.org, CC BY 2.0 FR, as above.
"""

TRIAL_COMMANDS = """\
OMP_NUM_THREADS=1 glassformer train --config examples/bundled/trial.toml --set train.precision=bf16
python examples/bundled/measure.py trial build/face/trial
"""
TRIAL = " The trial is a smaller model with a shorter training on the plain pairs, to compare with."
NAMES = {"bundled": "this model", "trial": "the trial", "previous": "the model before"}
KINDS = {
    "language": "in another language", "characters": "with unknown characters", "words": "with rare words",
    "length": "of 39 to 47 words", "unsure": "sayings in common words", "none": "simple and common",
}  # fmt: skip
JUDGED = ("previous", "bundled")


def card(directory: Path, results: dict[str, Any]) -> str:
    """The model card in Markdown."""
    ours, facts = results["bundled"], results["text"]
    text = TEMPLATE.format(
        first=FIRST,
        architecture=_architecture(RunDirectory(directory).load("cpu")),
        sizes=_sizes(directory),
        **{f"n_{name}": f"{count:,}" for name, count in facts["pairs"].items()},
        median_words=facts["words"]["median"], most_words=facts["words"]["most"],
        trial_commands=TRIAL_COMMANDS if "trial" in results else "",
        trial=TRIAL if "trial" in results else "",
        training=_trainings(results["trainings"]),
        torch=", ".join(sorted({one["torch"] for one in results["trainings"].values()})),
        search=ours["search"],
        scores=_scores(results),
        bleu=f"`{ours['signatures']['bleu']}`", chrf=f"`{ours['signatures']['chrf']}`",
        int8=_int8(ours),
        confidence=_confidence(ours["confidence"]),
        reasons=_reasons(ours["reasons"]),
        single_words=_single_words(ours["single_words"]),
        first_file="`examples/bundled/first_sentences.py`",
        known=_known(facts["known_first_sentences"]),
        doubted=_doubts(ours["doubted_first_sentences"]),
        examples=_examples(results),
        rules=_rules(),
        noisy=_noisy({name: results[name]["noisy"] for name in JUDGED}),
        typed=_typed_table({name: read_verdicts(name) for name in JUDGED}),
        typed_total=_typed_total(read_verdicts("bundled")),
        typed_answers=_typed_answers(read_verdicts("bundled")),
    )  # fmt: skip
    return "\n\n".join(map(_wrap, text.strip().split("\n\n"))) + "\n"


def _wrap(block: str) -> str:
    """A paragraph or a list with lines of one width; tables, headings, comments and code as they are."""
    if block.startswith("- "):
        items = [" ".join(item.split()) for item in re.split(r"\n(?=- )", block)]
        return "\n".join(textwrap.fill(item, WIDTH, subsequent_indent="  ", **WHOLE) for item in items)
    if block[:1] in "|#<`\n":
        return block
    return textwrap.fill(block, WIDTH, **WHOLE)


def write_card(directory: Path) -> Path:
    """Write README.md in the model's directory."""
    place = directory / "README.md"
    place.write_text(card(directory, read_results()), encoding="utf-8", newline="\n")
    return place


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def _architecture(run: LoadedRun) -> str:
    config = run.config.model
    parameters = sum(parameter.numel() for parameter in run.model.parameters())
    shared = "shared by both languages" if run.config.text.joint else "in each language"
    return table(
        ["what", "size"],
        [
            ["parameters", f"{parameters:,}"],
            ["layers", f"{config.n_encoder_layers} in the encoder, {config.n_decoder_layers} in the decoder"],
            ["d_model, d_ff, heads", f"{config.d_model}, {config.d_ff}, {config.n_heads}"],
            ["norm, positions, activation", f"{config.norm}, {config.positions}, {config.activation}"],
            ["vocabulary", f"{config.src_vocab:,} pieces of {run.config.text.tokenizer}, {shared}"],
            ["longest text", f"{config.max_length - 1} tokens"],
        ],
    )


def _sizes(directory: Path) -> str:
    sizes = {path.name: path.stat().st_size for path in directory.rglob("*") if path.is_file()}
    weights = sum(size for name, size in sizes.items() if name.endswith(".safetensors"))
    tokenizers = sum(size for name, size in sizes.items() if name.startswith("tokenizer"))
    return f"Its weights take {weights / 1e6:.2f} MB, its tokenizers {tokenizers / 1e6:.2f} MB."


def _trainings(found: dict[str, Any]) -> str:
    """A row for each training; each but the first starts from the packed files of the one before."""
    heads = ["training", "updates", "target tokens", "minutes", "precision", "model that was kept"]
    rows = [
        [
            f"{number}", f"{one['updates']:,}", f"{one['target_tokens']:,}", f"{one['elapsed_s'] / 60:.0f}",
            {"bf16": "bfloat16"}.get(one["precision"], one["precision"]), one["kept"] or "",
        ]
        for number, one in enumerate(found.values(), 1)
    ]  # fmt: skip
    return table(heads, rows)


def _scores(results: dict[str, Any]) -> str:
    shown = [name for name in NAMES if name in results]
    heads = ["words", "pairs", *(f"{NAMES[name]}: BLEU / chrF" for name in shown)]
    rows = []
    for words, ours in results["bundled"]["by_words"].items():
        of_each = (results[name]["by_words"][words] for name in shown)
        cells = [f"{one['bleu']:.1f} / {one['chrf']:.1f}" for one in of_each]
        rows.append([words, f"{ours['sentences']:,}", *cells])
    return table(heads, rows)


def _int8(ours: dict[str, Any]) -> str:
    rounded, whole = ours["by_words"]["all"], ours["float32"]
    return (
        f"{whole['bleu'] - rounded['bleu']:.2f} BLEU and {whole['chrf'] - rounded['chrf']:.2f} chrF: the same "
        f"weights in float32 have {whole['bleu']:.2f} / {whole['chrf']:.2f}, and {whole['differing']:,} of "
        f"{rounded['sentences']:,} outputs differ"
    )


def _confidence(found: dict[str, Any]) -> str:
    sizes = {"bad ones": found["bad"], "good ones": found["good"], **found["strange"]}
    rows = [[name, _share(found["warned"][name], count)] for name, count in sizes.items()]
    tenths = [
        [f"{one['mean_confidence']:.2f}", f"{one['share_good']:.2f}", f"{one['sentences']}"]
        for one in found["tenths"]
    ]
    return (
        f"Each translation has a `confidence`, the estimated chance that its chrF is at least 50. `translate` warns "
        f"below {found['doubtful']:.2f}, chosen to warn of 5 % of the good validation translations, and of other "
        "languages, unknown characters and very long texts at any confidence. Of the test pairs' translations "
        f"{found['good']} are good and {found['bad']} bad; in {100 * found['area_under_roc']:.0f} of 100 pairs of a "
        "good and a bad one the good one has the greater confidence. The last three rows are input that is not "
        "English: references of the test pairs, Spanish sentences and lines without meaning.\n\n"
        f"{table(['translations', 'warned of'], rows)}\n\nOn the test pairs, by confidence:\n\n"
        f"{table(['mean confidence', 'share of good ones', 'pairs'], tenths)}"
    )


def _reasons(found: dict[str, dict[str, int]]) -> str:
    """How many texts of each kind have which reason."""
    heads = ["texts", *found]
    rows = [[KINDS[kind], *(f"{counts.get(reason, 0)}" for reason in found)] for kind, counts in found.items()]
    return table(heads, rows)


def _single_words(found: dict[str, Any]) -> str:
    right, asked, warned = found["right"], found["asked"], found["warned"]
    return (
        f"It translates {_share(right, asked)} single words of the training as in its text. It warns of "
        f"{warned['wrong ones']} of the {asked - right} wrong ones, needlessly of {warned['right ones']}."
    )


def _share(part: int, whole: int) -> str:
    return f"{part} of {whole} ({100 * part / max(1, whole):.0f} %)"


def _known(known: list[str]) -> str:
    return (
        f"People type what is common: {len(known)} of them are training sources, if case and punctuation do not "
        "count; they are marked with \\*."
    )


def _doubts(doubted: list[str]) -> str:
    return (
        f" It warns of its answers to {len(doubted)} of them: (?)."
        if doubted
        else " It warns of none of its answers."
    )


def _examples(results: dict[str, Any]) -> str:
    shown = [name for name in NAMES if name in results]
    known, doubted = results["text"]["known_first_sentences"], results["bundled"]["doubted_first_sentences"]
    parts = []
    for topic, sentences in SENTENCES.items():
        rows = []
        for source in sentences:
            answers = [results[name]["first_sentences"][source] for name in shown]
            marks = " \\*" * (source in known) + " (?)" * (source in doubted)
            rows.append([source + marks, *answers])
        parts.append(f"### {topic.capitalize()}\n\n{table(['English', *(NAMES[name] for name in shown)], rows)}")
    return "\n\n".join(parts)


def _rules() -> str:
    """The rules of judging, as ``typed_sentences.py`` states them."""
    rules = re.findall(r"^(right|usable|wrong): (.*(?:\n  .*)*)", typed_sentences.__doc__ or "", re.M)
    return "\n".join(f"- **{grade}**: {' '.join(rule.split())}" for grade, rule in rules)


def _typed_table(judged: dict[str, list[Judged]]) -> str:
    """How many answers of each kind are of each grade, and of these how many are flagged."""
    heads = ["kind", *(f"{NAMES[name]}: {grade}" for name in judged for grade in GRADES)]
    rows = [[kind or "all", *_typed_row(kind, judged)] for kind in (*TYPED, "")]
    return table(heads, rows)


def _typed_row(kind: str, judged: dict[str, list[Judged]]) -> list[str]:
    counts = (summarize([one for one in every if kind in ("", one.kind)]) for every in judged.values())
    return [
        f"{count[grade]}" + (f" ({count[f'{grade} flagged']})" if count[f"{grade} flagged"] else "")
        for count in counts
        for grade in GRADES
    ]


def _typed_total(judged: Sequence[Judged]) -> str:
    counts, differing = summarize(judged), sum(one.differs for one in judged)
    fine, wrong = counts["right"] + counts["usable"], counts["wrong"]
    false = counts["right flagged"] + counts["usable flagged"]
    return (
        f"So {_share(fine, len(judged))} are right or usable. It warns of {_share(counts['wrong flagged'], wrong)} "
        f"wrong answers and of {_share(false, fine)} others. The two judges differ on {differing} answers."
    )


def _noisy(found: dict[str, dict[str, Any]]) -> str:
    """BLEU and chrF of the pairs that each kind of noise changes, as they are and changed."""
    heads = ["noise", "pairs", *(f"{NAMES[name]}: {text}" for name in found for text in ("clean", "noisy"))]
    rows = [
        [kind, f"{pairs['pairs']:,}"]
        + [f"{one['bleu']:.1f} / {one['chrf']:.1f}" for each in found.values() for one in _texts(each[kind])]
        for kind, pairs in found["bundled"].items()
    ]
    return table(heads, rows)


def _texts(kind: dict[str, Any]) -> tuple[dict[str, float], dict[str, float]]:
    return kind["clean"], kind["noisy"]


def _typed_answers(judged: Sequence[Judged]) -> str:
    rows = [[one.source + " (?)" * bool(one.flag), one.answer, " / ".join(one.verdicts)] for one in judged]
    return table(["text, (?) if it is warned of", "answer", "verdicts"], rows)


if __name__ == "__main__":
    print(write_card(BUNDLED))
