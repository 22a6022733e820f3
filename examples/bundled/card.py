"""The text of the bundled model's card, filled with measurements."""

import re
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from measure import Measurement, Rounding
from sentences import FIRST, RIGHT

from glassformer.run_directory import LoadedRun
from glassformer.text.corpus import Pair

TEMPLATE = """\
# The bundled English-German model

<!-- Written by examples/bundled/pack.py from these files and their scores: change card.py instead. -->

A small encoder-decoder Transformer that translates short English sentences into German. It ships with glassformer, so
that you can translate and trace before you have trained anything. It is an example to study, not a translator to
rely on.

```sh
glassformer translate "{first}"
glassformer trace "{first}"
glassformer summary
```

In Python it is `Translator.load()`.

## What it is

{architecture}

It is stored in float16 and computes in float32. {sizes}
The other files hold every setting, the counters of the training and SHA-256 sums.

## Data and attribution

- **Tatoeba**: 50,001 short pairs of English sentences and German translations, written by the contributors of
  [Tatoeba](https://tatoeba.org) and published under the
  [Creative Commons Attribution 2.0 France licence](https://creativecommons.org/licenses/by/2.0/fr/) (CC BY 2.0 FR).
  They were changed: split into training, validation and test pairs; a quarter of the training pairs repeated without
  the final punctuation mark; translated by the teachers below; joined to longer pairs.
- **Phrasebook**: glassformer's own task `phrasebook-de`: dates, times, amounts, units and lists of names in English
  and German, as the [Unicode CLDR](https://cldr.unicode.org) words them, generated with
  [Babel](https://babel.pocoo.org) (Unicode License v3).

They give {n_train} training pairs and {n_valid} validation pairs. {n_test} sentences of Tatoeba and {n_phrases}
phrases are held out for the scores below. None of them is a training source, and for the sentences not even one that
differs only in case or punctuation. But several sentences often share a translation: {known_targets} of the test
sentences' translations are training targets.
Half of the training sources have at most {median_words} words, 99 of 100 at most {most_words}. More pairs were
made from them:

- Two teachers, models of the same size, one from English to German and one from German to English, were trained on
  these pairs and translated one side of each ([Nguyen et al. 2020](https://arxiv.org/abs/1911.01986)). Their
  translations were added as further pairs, except pairs with a held-out source or with a phrase of the phrasebook.
- Longer pairs were joined at random: two sentences in a row, or two clauses with *and* or *but*.

In all, the model was trained on {n_learned} pairs. For testing, {n_joined} longer pairs were made from the test
sentences. The sentences themselves are not part of glassformer.

## How it was made

```sh
python examples/bundled/pairs.py en-de.tsv.gz runs/bundled-pairs
glassformer diversify --config examples/bundled/teachers.toml
python examples/bundled/more.py runs/bundled-teachers runs/bundled-pairs
glassformer train --config examples/bundled/train.toml
python examples/bundled/pack.py runs/bundled runs/bundled-teachers
```

Each line of `en-de.tsv.gz` has an English sentence of Tatoeba, a tab, and its German translation.

{training}

## Scores

These are the scores of the files in this directory on held-out pairs, with one reference each. In brackets: the same
weights in float32, before they were rounded.

{scores}

- BLEU is {bleu}.
- chrF is {chrf}.
- Float16 rounds a weight by at most {weight:.1e} and changes the log-probability of a reference by at most
  {log_prob:.1e}.

Most of Tatoeba's sentences have two to five words and many correct translations (*you* is *du*, *ihr* or *Sie*), of
which the reference is only one. So BLEU and exact match say less here than on longer text. The joined pairs are made
from the same test sentences by the rules that made the longer training pairs: they show that a line may contain two
sentences or clauses, not how well other longer text is translated.

## What it can and cannot do

The sentences below were written for this card. None is a training source{first_known}.
An output counts as right if it is one of the translations that we wrote down beforehand. No sentence was left out.

{examples}

## Limits

- It can translate short, everyday sentences of the kind that language learners write, and most of the phrases above;
  sometimes it drops a digit. It cannot translate longer sentences, rare words and rare names, but still writes
  something for them.
- English *you* becomes *du*, *ihr* or *Sie*, and a past tense becomes perfect or preterite, without a rule.
- Each line is translated by itself; `--split-sentences` translates each sentence of a line by itself.
- It reproduces its data, including mistakes and stereotypes. Do not use it where a wrong translation could cause
  harm.

## Licence

The weights are part of glassformer and licensed under the Apache License 2.0. They were trained on Tatoeba's
sentences: if you distribute them, name Tatoeba and its contributors, https://tatoeba.org, CC BY 2.0 FR, as above.
"""


@dataclass(frozen=True)
class CardFacts:
    """The values of a card. ``outputs`` are the model's translations of the sentences of ``RIGHT``."""

    run: LoadedRun
    sizes: dict[str, int]
    state: dict[str, Any]
    teachers: list[dict[str, Any]]
    log: list[str]
    pairs: dict[str, list[Pair]]
    measured: list[Measurement]
    rounding: Rounding
    outputs: dict[str, str]


def card(facts: CardFacts) -> str:
    """The model card in Markdown."""
    words = sorted(len(pair.src.split()) for pair in facts.pairs["train"])
    signatures = facts.measured[0].shipped.signatures
    known_targets = {pair.tgt for pair in facts.pairs["learned"]}
    known = any(pair.src == FIRST for pair in facts.pairs["train"])
    text = TEMPLATE.format(
        first=FIRST,
        architecture=_architecture(facts.run),
        sizes=_sizes(facts.sizes),
        n_train=f"{len(facts.pairs['train']):,}", n_valid=f"{len(facts.pairs['valid']):,}",
        n_test=f"{len(facts.pairs['test']):,}", n_phrases=f"{len(facts.pairs['phrasebook-test']):,}",
        known_targets=sum(pair.tgt in known_targets for pair in facts.pairs["test"]),
        n_learned=f"{len(facts.pairs['learned']):,}", n_joined=f"{len(facts.pairs['joined-test']):,}",
        median_words=statistics.median_high(words), most_words=words[99 * len(words) // 100],
        training=_training(facts),
        scores=_scores(facts.measured),
        bleu=f"`{signatures['bleu']}`", chrf=f"`{signatures['chrf']}`",
        weight=facts.rounding.weight, log_prob=facts.rounding.log_prob,
        first_known=f", except *{FIRST}*" if known else "",
        examples=_examples(facts.outputs),
    )  # fmt: skip
    return re.sub(r"\n{3,}", "\n\n", text)


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


def _sizes(sizes: dict[str, int]) -> str:
    weights = sum(size for name, size in sizes.items() if name.endswith(".safetensors"))
    tokenizers = sum(size for name, size in sizes.items() if name.startswith("tokenizer"))
    return f"Its weights take {weights / 1e6:.2f} MB, its tokenizers {tokenizers / 1e6:.2f} MB."


def _training(facts: CardFacts) -> str:
    counters, state = facts.state["counters"], facts.state
    tokens, minutes = counters["target_tokens"], counters["elapsed_s"] / 60
    device = next(line.split(" parameters on ")[1].split(".")[0] for line in facts.log if " parameters on " in line)
    kept = [line.split("  ", 2)[2].strip() for line in facts.log if line.endswith("<- kept")]
    threads = f"{state['threads']} thread{'' if state['threads'] == 1 else 's'}"
    where = f"{device}, {threads}, PyTorch {state['torch']}"
    teacher_tokens = sum(one["counters"]["target_tokens"] for one in facts.teachers)
    return (
        f"Training made {counters['update']:,} updates on {tokens:,} target tokens in {minutes:.0f} minutes of "
        f"wall-clock\ntime ({where}), with one seed; the teachers were trained on\n"
        f"{teacher_tokens:,} target tokens.\n"
        f"Kept was: {kept[-1].removesuffix('<- kept').strip()}."
    )


def _scores(measured: list[Measurement]) -> str:
    names = {"test": "Tatoeba", "joined-test": "Tatoeba, joined", "phrasebook-test": "phrasebook"}
    rows = []
    for one in measured:
        pairs = [(getattr(one.shipped, key), getattr(one.float32, key)) for key in ("bleu", "chrf", "exact_match")]
        cells = [f"{shipped:.2f} ({float32:.2f})" for shipped, float32 in pairs]
        name = f"{names[one.test]}, {one.shipped.sentences:,}"
        rows.append([name, one.search, *cells[:2], f"{cells[2]} %", str(one.differing)])
    return table(["pairs", "search", "BLEU", "chrF", "exact match", "outputs that differ in float32"], rows)


def _examples(outputs: dict[str, str]) -> str:
    right = [[source, output] for source, output in outputs.items() if output in RIGHT[source]]
    other = [[source, out, RIGHT[source][0]] for source, out in outputs.items() if out not in RIGHT[source]]
    return (
        f"### Right: {len(right)} of {len(outputs)}\n\n{table(['English', 'output'], right)}\n\n"
        f"### Wrong, or not among our translations: {len(other)} of {len(outputs)}\n\n"
        f"{table(['English', 'output', 'right'], other)}"
    )
