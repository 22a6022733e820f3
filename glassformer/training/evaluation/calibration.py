"""Calibration: fits the confidence of a model's translations on its validation text, at the end of a training.

chrF says which translations are good. Sources with typing mistakes have unknown words. Texts that are no sources
count as bad: validation targets, and shuffled characters whose n-grams differ from those of sources.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from random import Random

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.chrf import CHRF

from glassformer.decoding.confidence.bloom_filter import BloomFilter
from glassformer.decoding.confidence.confidence import FEATURES, Confidence, Weight, features, log_length_ratio
from glassformer.decoding.confidence.seen_text import ORDERS, NgramTable, SeenText
from glassformer.decoding.translation import Translation
from glassformer.decoding.translator import Translator
from glassformer.errors import TextError
from glassformer.run_directory import RunDirectory
from glassformer.text.corpus.corpus import Pair
from glassformer.text.corpus.noise import misspell
from glassformer.text.corpus.prepare import PreparedText, read_prepared
from glassformer.text.corpus.units import find_units
from glassformer.training.evaluation.evaluation import to_nfc
from glassformer.training.evaluation.metrics import is_same_text

GOOD_CHRF = 50.0
SHARE_OF_TRAINING = 0.03  # of its time, which the fit may take
MIN_BUDGET_S = 1.0
SENTENCES, MIN_SENTENCES = 1000, 40  # the most that are translated, and the fewest that suffice
_FOREIGN = 200  # the most texts that are no sources
_FOREIGN_WEIGHT = 0.25  # their weight, as a share of that of all sources
_NGRAM_TEXTS, _WORD_TEXTS = 20_000, 100_000  # training texts whose n-grams and words are counted
_FEW_UNSEEN = 0.1  # share of the n-grams of validation sources that may be new to the table
_CHUNK = 50  # texts between two looks at the clock
_SIGNS = {name: 1 if name == "log_prob" else -1 for name in FEATURES}  # the only sign that a weight may have
_FALSE_FLAGS = 0.05  # share of the good translations that are doubted
_SURELY, _PERHAPS = 0.2, 0.5  # limits of the chance below which a translation is doubted
_RIDGE, _STEPS = 1.0, 50

Floats = NDArray[np.float64]


def fit_confidence(
    translator: Translator, text: PreparedText, metric: str, budget_s: float = math.inf
) -> Confidence | None:
    """The confidence of ``translator``; None if fewer than 40 translations could be made in ``budget_s``."""
    began, exact = time.monotonic(), metric == "exact_match"
    pairs = Random(1).sample(text.valid_text, min(SENTENCES, len(text.valid_text)))
    seen = _read_seen_text(text, pairs)
    done = list(_translate(translator, [pair.src for pair in pairs], began + 0.5 * budget_s))
    if len(done) < MIN_SENTENCES:
        return None
    pairs = pairs[: len(done)]
    typed = list[Pair]()
    if not exact:  # with a mistake, another target may be right
        copies = [misspell(pair, Random("\t".join(pair))) for pair in pairs]
        typed = [copy for copy, pair in zip(copies, pairs, strict=True) if copy != pair]
    mistaken = list(_translate(translator, [pair.src for pair in typed], began + 0.8 * budget_s))
    foreign = list(_translate(translator, _foreign_texts(pairs, seen.ngrams), began + budget_s))
    judged = zip((*done, *mistaken), (*pairs, *typed[: len(mistaken)]), strict=True)
    good = np.array([_is_good(one.text, pair.tgt, exact=exact) for one, pair in judged])
    ratio = float(np.median([log_length_ratio(pair.src, pair.tgt) for pair in pairs]))
    values = np.array([
        list(features(one.read, one.hypotheses[0], seen.unseen(one.read), ratio).values())
        for one in (*done, *mistaken, *foreign)
    ])  # fmt: skip
    weights, bias = _fit(values, good, len(foreign))
    good = good[: len(done)]
    found = Confidence(
        good="exact match" if exact else f"chrF >= {GOOD_CHRF:g}",
        seen=seen,
        length_ratio=ratio,
        weights=weights,
        bias=bias,
        doubtful=_SURELY,
        fitted_on={
            "sentences": len(done), "good": int(good.sum()), "misspelled": len(mistaken), "foreign": len(foreign),
        },
    )  # fmt: skip
    chances = np.array([found.judge(one.read, one.hypotheses[:1])[0][0] for one in done])[good]
    return replace(found, doubtful=_choose_threshold(chances))


def calibrate_run(run: RunDirectory, report: Callable[[str], None]) -> None:
    """Fit the confidence of a run's final model, and keep it in the run."""
    config, _ = run.read_config()
    loaded = run.load("cpu")
    try:
        text = read_prepared(run.text, config.text)
    except TextError as error:
        report(str(error))
        text = None
    found = None
    if text is not None:
        translator = Translator(loaded.model, loaded.src_tokenizer, loaded.tgt_tokenizer, config.decode)
        found = fit_confidence(translator, text, config.train.metric)
    keep_confidence(run, found, report)


def keep_confidence(run: RunDirectory, found: Confidence | None, report: Callable[[str], None]) -> None:
    """Write confidence.json, or delete that of an earlier model."""
    if found is None:
        run.confidence_file.unlink(missing_ok=True)
        report(f"Confidence: not fitted: fewer than {MIN_SENTENCES} validation sentences could be translated.")
        return
    found.write(run.confidence_file)
    counts = found.fitted_on
    report(
        f"Confidence: fitted on {counts['sentences']:,} validation translations, {counts['good']:,} of them good "
        f"({found.good}), {counts['misspelled']:,} with typing mistakes, and {counts['foreign']:,} no sources."
    )


def _read_seen_text(text: PreparedText, pairs: Sequence[Pair]) -> SeenText:
    """The n-grams of the training sources."""
    count = len(text.train)
    chosen = Random(1).sample(range(count), min(count, _WORD_TEXTS))
    sources = [text.src_tokenizer.to_text(text.train.src_side.ids(index)) for index in chosen]
    others = [pair.src for pair in pairs]
    for order in sorted(ORDERS, reverse=True):
        table = NgramTable.from_texts(sources[:_NGRAM_TEXTS], order)
        if np.mean([table.unseen(other) for other in others[:_FOREIGN]]) <= _FEW_UNSEEN:
            break
    seen = SeenText.from_texts(table, sources, others)
    # Of a model that reads words each is new.
    return seen if find_units(pairs)[0] == "sentences" else replace(seen, words=BloomFilter.full())


def _choose_threshold(chances: Floats) -> float:
    """The chance below which a translation is doubted."""
    few = float(np.quantile(chances, _FALSE_FLAGS)) if len(chances) else _SURELY
    return min(max(few, _SURELY), _PERHAPS)


def _foreign_texts(pairs: Sequence[Pair], table: NgramTable) -> list[str]:
    """Targets, and sources with shuffled characters, unlike sources."""
    chance, usual = Random(2), float(np.quantile([table.unseen(pair.src) for pair in pairs], 0.95))
    shuffled = ("".join(chance.sample(pair.src, len(pair.src))) for pair in pairs)
    texts = [text for pair, other in zip(pairs, shuffled, strict=True) for text in (pair.tgt, other)]
    return [text for text in texts if table.unseen(text) > usual][: min(_FOREIGN, len(pairs))]


def _translate(translator: Translator, texts: Sequence[str], until: float) -> Iterator[Translation]:
    """The translations that are ready by then, at least those of the first chunk."""
    for start in range(0, len(texts), _CHUNK):
        if start and time.monotonic() >= until:
            return
        yield from translator.translate(texts[start : start + _CHUNK])


def _is_good(output: str, reference: str, *, exact: bool) -> bool:
    output, reference = to_nfc(output), to_nfc(reference)
    if exact:
        return is_same_text(output, reference)
    return bool(CHRF().sentence_score(output, [reference]).score >= GOOD_CHRF)


def _fit(values: Floats, good: NDArray[np.bool_], foreign: int) -> tuple[dict[str, Weight], float]:
    """A weight for each feature and the bias. The last ``foreign`` rows are bad."""
    n_good, n_bad = int(good.sum()), int((~good).sum())
    # Platt 1999: never quite certain, so that few or one-sided examples give no extreme weights.
    targets = np.where(good, (n_good + 1) / (n_good + 2), 1 / (n_bad + 2))
    targets = np.append(targets, np.full(foreign, 1 / (foreign + 2)))
    shares = np.ones(len(values))
    shares[len(good) :] = min(1.0, _FOREIGN_WEIGHT * len(good) / max(1, foreign))
    means, scales = values.mean(axis=0), values.std(axis=0)
    scales[scales < 1e-9] = 1.0
    standard = (values - means) / scales
    free = np.ones(len(FEATURES), dtype=bool)
    while True:
        found, bias = _logistic_regression(standard * free, targets, shares)
        wrong = [index for index, name in enumerate(FEATURES) if found[index] * _SIGNS[name] < 0 and free[index]]
        if not wrong:
            break
        free[max(wrong, key=lambda index: abs(found[index]))] = False
    rows = zip(FEATURES, means, scales, found * free, strict=True)
    return {name: Weight(float(mean), float(scale), float(one)) for name, mean, scale, one in rows}, float(bias)


def _logistic_regression(values: Floats, targets: Floats, shares: Floats) -> tuple[Floats, float]:
    """Newton's method with a ridge on the weights."""
    rows = np.column_stack([values, np.ones(len(values))])
    ridge = np.diag([*[_RIDGE] * values.shape[1], 1e-6])
    found = np.zeros(rows.shape[1])
    for _ in range(_STEPS):
        chances = 0.5 * (1 + np.tanh(rows @ found / 2))
        slope = rows.T @ (shares * (chances - targets)) + ridge @ found
        curvature = (rows * (shares * chances * (1 - chances))[:, None]).T @ rows + ridge
        step = np.linalg.solve(curvature, slope)
        found -= step * min(1.0, 5 / max(1e-9, float(np.abs(step).max())))
        if np.abs(step).max() < 1e-6:
            break
    return found[:-1], float(found[-1])
