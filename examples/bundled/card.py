"""The words of the bundled model's card, around what was measured. Knows nothing of how it was measured."""

import re
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from measure import Measured, Rounding
from sentences import FIRST, RIGHT

from glassformer.run_directory import LoadedRun
from glassformer.text.corpus import Pair

WORDS = """\
# The bundled English-German model

<!-- Written by examples/bundled/pack.py from the files beside it and what they score; change the script's words. -->

A small encoder-decoder Transformer that translates short English sentences into German. It ships with glassformer, so
that there is something to translate with, to trace and to take apart before anything has been trained. It is an
example to look into, not a translator to rely on.

```sh
glassformer translate "{first}"
glassformer trace "{first}"
glassformer summary
```

In Python it is `Translator.load()`.

## What it is

{architecture}

It is stored in float16 and computes in float32. {sizes}
The other files hold every setting, counters of the training and SHA-256 sums.

## Data and attribution

- **Tatoeba**: 50,001 short pairs of English sentences and German translations, written by the contributors of
  [Tatoeba](https://tatoeba.org) and published under the
  [Creative Commons Attribution 2.0 France licence](https://creativecommons.org/licenses/by/2.0/fr/) (CC BY 2.0 FR).
  They were changed: split into parts, and a quarter of those to train on stands there a second time without the mark
  at its end; translated by the teachers below; put together to longer ones.
- **Phrasebook**: glassformer's own task `phrasebook-de`, dates, times, amounts, units and lists of names in English
  and German, in the words of the [Unicode CLDR](https://cldr.unicode.org) by way of
  [Babel](https://babel.pocoo.org) (Unicode License v3).

Of these come {n_train} pairs to train on, and {n_valid} to validate with. Held out for the scores below are
{n_test} sentences of Tatoeba and {n_phrases} phrases. None of them is among those trained on, of the sentences not
even one with other case or punctuation; but a translation is often that of several sentences, and {known_targets} of
the sentences' translations are among those trained on.
Of the sources to train on, half have at most {median_words} words, and 99 of 100 at most {most_words}. More was
made of them:

- Two teachers, models of the same size, one from English to German and one back, learned these pairs alone and
  translated one side of each ([Nguyen et al. 2020](https://arxiv.org/abs/1911.01986)). What they wrote stands beside
  the pairs, but for made pairs with a source that is held out or with a phrase of the phrasebook.
- Longer pairs were put together by chance: two sentences side by side, or two clauses with *and* or *but*.

With these, {n_learned} pairs were learned. To judge by, {n_joined} longer pairs were made of the test sentences.
The sentences themselves are not part of glassformer.

## How it was made

```sh
python examples/bundled/pairs.py en-de.tsv.gz runs/bundled-pairs
glassformer diversify --config examples/bundled/teachers.toml
python examples/bundled/more.py runs/bundled-teachers runs/bundled-pairs
glassformer train --config examples/bundled/train.toml
python examples/bundled/pack.py runs/bundled runs/bundled-teachers
```

`en-de.tsv.gz` holds an English sentence of Tatoeba and a German one on each line, between them a tab.

{training}

## Scores

Of the files beside this card, on pairs that were held out, with one reference for each. In brackets: the same
weights in float32, before they were rounded.

{scores}

- BLEU is {bleu}.
- chrF is {chrf}.
- Float16 rounds a weight by at most {weight:.1e} and changes the log-probability of a reference by at most
  {log_prob:.1e}.

Most of Tatoeba's sentences have two to five words and many right translations (*you* is *du*, *ihr* or *Sie*), of
which the reference is one. So BLEU and exact match say less here than on longer text. Those put together are made of
the same test sentences by the rules that made longer ones to train on: they show that a line may hold two sentences
or clauses, not how longer text of other kinds is translated.

## What it can and cannot do

The sentences below were written for this card and are not among those trained on{first_known}.
Each stands where the model's answer put it: among the right ones if it is one of the translations that we had written
down before. Nothing was left out.

{examples}

## Limits

- It knows short, everyday sentences of the kind that learners of a language write, and most of the phrases above;
  now and then it loses a digit. Longer sentences, rare words and names that it seldom met are beyond it; it writes
  something for them all the same.
- English *you* becomes *du*, *ihr* or *Sie*, and a past tense perfect or preterite, as chance in the data had it.
- Each line is translated by itself; `--split-sentences` translates each sentence of a line by itself.
- It repeats what its data hold, their mistakes and their views of people included. Do not use it where a wrong
  translation does harm.

## Licence

The weights are part of glassformer and stand under the Apache License 2.0. They were learned from Tatoeba's
sentences: whoever passes them on names Tatoeba and its contributors, https://tatoeba.org, CC BY 2.0 FR, as above.
"""


@dataclass(frozen=True)
class CardFacts:
    """What a card is filled with. ``outputs`` are the model's answers to the sentences of ``RIGHT``."""

    run: LoadedRun
    sizes: dict[str, int]
    state: dict[str, Any]
    teachers: list[dict[str, Any]]
    log: list[str]
    pairs: dict[str, list[Pair]]
    measured: list[Measured]
    rounding: Rounding
    outputs: dict[str, str]


def card(facts: CardFacts) -> str:
    """The model card, as Markdown."""
    words = sorted(len(pair.src.split()) for pair in facts.pairs["train"])
    signatures = facts.measured[0].shipped.signatures
    known_targets = {pair.tgt for pair in facts.pairs["learned"]}
    known = any(pair.src == FIRST for pair in facts.pairs["train"])
    text = WORDS.format(
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
        first_known=f", but for *{FIRST}*, which is" if known else "",
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
    chosen = [line.split("  ", 1)[1] for line in facts.log if "Average of the last" in line or "it is kept" in line]
    threads = f"{state['threads']} thread{'' if state['threads'] == 1 else 's'}"
    where = f"{device}, {threads}, PyTorch {state['torch']}"
    taught = sum(one["counters"]["target_tokens"] for one in facts.teachers)
    return (
        f"Training made {counters['update']:,} updates on {tokens:,} target tokens in {minutes:.0f} minutes by the\n"
        f"clock ({where}), with one seed, and that of the teachers before it\n{taught:,} target tokens.\n"
        f"{' '.join(chosen[-2:])}"
    )


def _scores(measured: list[Measured]) -> str:
    names = {"test": "Tatoeba", "joined-test": "Tatoeba, put together", "phrasebook-test": "phrasebook"}
    rows = []
    for one in measured:
        pairs = [(getattr(one.shipped, key), getattr(one.float32, key)) for key in ("bleu", "chrf", "exact_match")]
        cells = [f"{shipped:.2f} ({float32:.2f})" for shipped, float32 in pairs]
        name = f"{names[one.test]}, {one.shipped.sentences:,}"
        rows.append([name, one.search, *cells[:2], f"{cells[2]} %", str(one.differing)])
    return table(["pairs", "search", "BLEU", "chrF", "exact match", "outputs that float32 writes otherwise"], rows)


def _examples(outputs: dict[str, str]) -> str:
    right = [[source, output] for source, output in outputs.items() if output in RIGHT[source]]
    other = [[source, out, RIGHT[source][0]] for source, out in outputs.items() if out not in RIGHT[source]]
    return (
        f"### Right: {len(right)} of {len(outputs)}\n\n{table(['English', 'the model'], right)}\n\n"
        f"### Wrong, or otherwise than we had it: {len(other)} of {len(outputs)}\n\n"
        f"{table(['English', 'the model', 'right would be'], other)}"
    )
