"""From texts to translations: the tokenizers, the model or several, and the search, joined.

Texts are sorted by length and translated in batches; results come back in the order of the texts, as many as
there were. Knows nothing of files or servers.

Runs that translate together, loaded: their models, and the one vocabulary that they share.

Knows nothing of how models are made to decide together.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Self

from glassformer.bundled import BUNDLED
from glassformer.config import DecodeConfig
from glassformer.decoding.batch_translator import Writer
from glassformer.decoding.batching import (
    check_pairs,
    check_texts,
    check_tokenizers,
    copies,
    in_batches,
    read_sources,
    refuse_one_str,
)
from glassformer.decoding.request import Request, requests_of
from glassformer.decoding.scoring import Scored
from glassformer.decoding.segments import Part, joined, parts_of
from glassformer.decoding.translation import EMPTY, Hypothesis, Translation
from glassformer.decoding.worker_pool import checked_workers
from glassformer.errors import InputError, RunError, TokenizerError
from glassformer.model import Transformer
from glassformer.model.linears import read_precision
from glassformer.run_directory import LoadedRun, RunDirectory
from glassformer.text.tokenizer import Tokenizer


def load_together(directories: Sequence[str | Path], device: str) -> list[LoadedRun]:
    """Each run, on ``device``; raises ``RunError`` for none, ``TokenizerError`` for runs of other vocabularies."""
    if not directories:
        raise RunError("run: found none, expected at least one run directory. Name one.")
    runs = [RunDirectory(Path(directory)).load(device) for directory in directories]
    for directory, run in zip(directories[1:], runs[1:], strict=True):
        _check_same_tokenizers(directories[0], runs[0], directory, run)
    return runs


def _check_same_tokenizers(first: str | Path, expected: LoadedRun, second: str | Path, found: LoadedRun) -> None:
    for side in ("src", "tgt"):
        one, other = (getattr(run, f"{side}_tokenizer") for run in (expected, found))
        if one.digest != other.digest:
            raise TokenizerError(
                f"{second}/tokenizer.{side}.json: is not the tokenizer of {first}, expected the same: runs decide "
                "together about ids, which must mean the same to all. Train them on one text with one vocabulary."
            )


__all__ = ["Hypothesis", "Request", "Scored", "Translation", "Translator"]

Progress = Callable[[int], None]


class Translator:
    """A model with its tokenizers; ``config`` holds the options of every call that brings none of its own.

    With ``others`` it is an ensemble: each next id follows from the mean of all models' probabilities. Models are
    used where they are, on their device. One in training mode is put into evaluation mode for the length of a call.

    ``precision`` (float32, bf16, int8) makes copies of the models that translate faster, ``workers`` processes that
    search beside each other; leave them as a ``with`` block or by ``close``. A walk looks at the models themselves.
    """

    def __init__(
        self,
        model: Transformer,
        src_tokenizer: Tokenizer,
        tgt_tokenizer: Tokenizer,
        config: DecodeConfig,
        *,
        others: Sequence[Transformer] = (),
        precision: str | None = None,
        workers: int = 1,
    ) -> None:
        """Raises ``TokenizerError`` when a tokenizer has other sizes or control ids than a model.

        ``ConfigError`` for a precision that there is not, here or at all, or for no workers.
        """
        self.model = model
        self.models = (model, *others)
        self.src_tokenizer = src_tokenizer
        self.tgt_tokenizer = tgt_tokenizer
        self.config = config
        for member in self.models:
            check_tokenizers(member.config, src_tokenizer, tgt_tokenizer)
        self._writer = Writer(self.models, tgt_tokenizer, read_precision(precision), checked_workers(workers))

    @classmethod
    def load(
        cls,
        directory: str | Path | Sequence[str | Path] = BUNDLED,
        *,
        device: str = "auto",
        precision: str | None = None,
        workers: int = 1,
    ) -> Self:
        """From a run directory, or an ensemble from several, on ``device``: auto, cpu, cuda, cuda:1 ...

        Where none is named it is the small English-German model that ships with the package.
        An ensemble takes its options from the first run. Raises ``TokenizerError`` for runs of other vocabularies.
        """
        runs = load_together([directory] if isinstance(directory, str | Path) else directory, device)
        first = runs[0]
        return cls(
            first.model,
            first.src_tokenizer,
            first.tgt_tokenizer,
            first.config.decode,
            others=[run.model for run in runs[1:]],
            precision=precision,
            workers=workers,
        )

    def close(self) -> None:
        """End the worker processes; without any there is nothing to do."""
        self._writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def translate(
        self,
        texts: Sequence[str],
        options: DecodeConfig | None = None,
        *,
        prefixes: Sequence[str] | None = None,
        constraints: Sequence[Sequence[str]] | None = None,
        banned: Sequence[str] = (),
        attention: bool = False,
        progress: Progress | None = None,
    ) -> list[Translation]:
        """One translation for each text, in their order; a blank text gives an empty one.

        ``prefixes`` are what each output begins with, ``constraints`` the phrases that each must hold, ``banned`` the
        phrases that none may hold. ``attention`` adds the cross-attention weights to each best hypothesis, of an
        ensemble those of the first model. ``progress`` is called after each batch with the number of texts done so
        far. A text with more tokens than the model takes is cut and flagged ``source_truncated``. Raises
        ``InputError`` when ``texts`` is not a list of str, or for what cannot be demanded.
        """
        check_texts("texts", texts)
        requests = requests_of(texts, prefixes, constraints, banned)
        return self._translated(requests, 0, self._checked(options), attention, progress)

    def translate_stream(
        self,
        texts: Iterable[str | Request],
        options: DecodeConfig | None = None,
        *,
        attention: bool = False,
        chunk: int = 1000,
        start: int = 0,
    ) -> Iterator[Translation]:
        """``translate`` for texts without end: ``chunk`` of them are read, translated and handed on at a time.

        In place of a text a ``Request`` may stand, with what is demanded of its translation. ``start`` is the number
        of the first text in the whole input, of which these are a part: sampling draws by it.
        """
        refuse_one_str("texts", texts)
        if chunk < 1:
            raise InputError(f"chunk: found {chunk}, expected 1 or more texts to read at a time.")
        remaining = iter(texts)
        while taken := list(islice(remaining, chunk)):
            check_texts("texts", [one.text if isinstance(one, Request) else one for one in taken])
            requests = [one if isinstance(one, Request) else Request(one) for one in taken]
            yield from self._translated(requests, start, self._checked(options), attention, None)
            start += len(taken)

    def stream(self, text: str | Request, options: DecodeConfig | None = None, *, start: int = 0) -> Iterator[str]:
        """The translation of one text in pieces, each as soon as it is certain; joined they are its best output.

        Greedy search and sampling give each token, a beam what all its hypotheses share. A character is given when
        it is whole. ``start`` is the text's number in the whole input: sampling draws by it. Raises ``InputError`` as
        ``translate`` does.
        """
        options = self._checked(options)
        request = text if isinstance(text, Request) else Request(text)
        check_texts("text", [request.text])
        for part in self._parts([request], start, options):
            if not part.source.is_empty:
                yield from self._writer.pieces(part, options)
            yield part.gap

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[float]:
        """The log-probability (natural logarithm) of each target, eos included, given its source.

        Raises ``InputError`` when there are not as many of both, or a target is longer than the model takes.
        """
        return [one.log_prob for one in self.scored(sources, targets)]

    def scored(
        self, sources: Sequence[str], targets: Sequence[str], options: DecodeConfig | None = None, *, start: int = 0
    ) -> list[Scored]:
        """``score`` with what it is made of, each token's log-probability, and with the length penalty's score.

        ``start`` is the number of the first pair in the whole input, by which messages name one.
        """
        options = self._checked(options)
        src = read_sources(sources, self.src_tokenizer, self._writer.config, "sources")
        tgt = read_sources(targets, self.tgt_tokenizer, self._writer.config, "targets")
        check_pairs(src, tgt, self._writer.config, start)
        lengths = [max(len(source.ids), len(target.ids)) for source, target in zip(src, tgt, strict=True)]
        log_probs: list[list[float]] = [[] for _ in src]
        for batch in in_batches(lengths, range(len(src)), 1, options.batch_tokens):
            ids = ([side[place].ids for place in batch] for side in (src, tgt))
            for place, found in zip(batch, self._writer.token_log_probs(*ids), strict=True):
                log_probs[place] = found
        tokens = [self.tgt_tokenizer.to_tokens(target.ids) for target in tgt]
        return [
            Scored.of(target.text, labels, found, options.length_penalty, source_truncated=source.truncated)
            for source, target, labels, found in zip(src, tgt, tokens, log_probs, strict=True)
        ]

    def _checked(self, options: DecodeConfig | None) -> DecodeConfig:
        options = self.config if options is None else options
        if not isinstance(options, DecodeConfig):
            raise InputError(
                f"options: found {type(options).__name__}, expected a DecodeConfig. Write DecodeConfig(beam=5)."
            )
        return options

    def _parts(self, requests: Sequence[Request], start: int, options: DecodeConfig) -> list[Part]:
        return parts_of(requests, start, options, self._writer.config, (self.src_tokenizer, self.tgt_tokenizer))

    def _translated(
        self,
        requests: Sequence[Request],
        start: int,
        options: DecodeConfig,
        attention: bool,
        progress: Progress | None,
    ) -> list[Translation]:
        """``translate``, where the first text is number ``start`` of the whole input."""
        parts = self._parts(requests, start, options)
        results = [Translation(part.source.text, [], part.source.truncated, [EMPTY]) for part in parts]
        places = [place for place, part in enumerate(parts) if not part.source.is_empty]
        to_do = Counter(parts[place].request for place in places)
        lengths = [len(part.source.ids) for part in parts]
        batches = in_batches(lengths, places, copies(options), options.batch_tokens, self._writer.workers)
        in_parts = [[parts[place] for place in batch] for batch in batches]
        for number, written in self._writer.write(in_parts, options, attention=attention):
            batch = batches[number]
            for place, hypotheses in zip(batch, written, strict=True):
                tokens = self.src_tokenizer.to_tokens(parts[place].source.ids)
                results[place] = replace(results[place], source_tokens=tokens, hypotheses=hypotheses)
            to_do -= Counter(parts[place].request for place in batch)
            if progress is not None:
                progress(len(requests) - len(to_do))
        return list(joined(requests, parts, results))
