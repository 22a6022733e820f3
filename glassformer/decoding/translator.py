"""From texts to translations: the tokenizers, the model and the search, joined.

Texts are sorted by length and translated in batches; results come back in the order of the texts, as many as
there were. Knows nothing of files or servers.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Self

import torch
from torch import Tensor

from glassformer.config import DecodeConfig
from glassformer.decoding.candidate import Candidate
from glassformer.decoding.forced import forced_attention, forced_log_probs
from glassformer.decoding.sampling import sample
from glassformer.decoding.search import beam_search
from glassformer.decoding.sources import (
    Source,
    check_tokenizers,
    in_batches,
    output_limit,
    padded,
    read_sources,
    refuse_one_str,
)
from glassformer.decoding.translation import EMPTY, Hypothesis, Translation
from glassformer.errors import InputError
from glassformer.model import Transformer
from glassformer.model.evaluating import evaluating
from glassformer.run_directory import RunDirectory
from glassformer.text.tokenizer import Tokenizer

__all__ = ["Hypothesis", "Translation", "Translator"]

Progress = Callable[[int], None]


class Translator:
    """A model with its tokenizers; ``config`` holds the options of every call that brings none of its own.

    The model is used where it is, on its device. A model in training mode is put into evaluation mode for the
    length of each call.
    """

    def __init__(
        self, model: Transformer, src_tokenizer: Tokenizer, tgt_tokenizer: Tokenizer, config: DecodeConfig
    ) -> None:
        """Raises ``TokenizerError`` when a tokenizer has other sizes or control ids than the model."""
        self.model = model
        self.src_tokenizer = src_tokenizer
        self.tgt_tokenizer = tgt_tokenizer
        self.config = config
        check_tokenizers(model.config, src_tokenizer, tgt_tokenizer)

    @classmethod
    def load(cls, directory: str | Path, *, device: str = "auto") -> Self:
        """From a run directory, on ``device``: auto, cpu, cuda, cuda:1 ..."""
        run = RunDirectory(Path(directory)).load(device)
        return cls(run.model, run.src_tokenizer, run.tgt_tokenizer, run.config.decode)

    def translate(
        self,
        texts: Sequence[str],
        options: DecodeConfig | None = None,
        *,
        attention: bool = False,
        progress: Progress | None = None,
    ) -> list[Translation]:
        """One translation for each text, in their order; a blank text gives an empty one.

        ``attention`` adds the cross-attention weights to each best hypothesis. ``progress`` is called after each
        batch with the number of texts done so far. A text with more tokens than the model takes is cut and
        flagged ``source_truncated``. Raises ``InputError`` when ``texts`` is not a list of str.
        """
        return self._translated(texts, 0, options, attention, progress)

    def translate_stream(
        self,
        texts: Iterable[str],
        options: DecodeConfig | None = None,
        *,
        attention: bool = False,
        chunk: int = 1000,
    ) -> Iterator[Translation]:
        """``translate`` for texts without end: ``chunk`` of them are read, translated and handed on at a time."""
        refuse_one_str("texts", texts)
        remaining, start = iter(texts), 0
        while taken := list(islice(remaining, chunk)):
            yield from self._translated(taken, start, options, attention, None)
            start += len(taken)

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[float]:
        """The log-probability (natural logarithm) of each target, eos included, given its source.

        Raises ``InputError`` when there are not as many of both, or a target is longer than the model takes.
        """
        src = read_sources(sources, self.src_tokenizer, self.model.config, "sources")
        tgt = read_sources(targets, self.tgt_tokenizer, self.model.config, "targets")
        if len(src) != len(tgt):
            raise InputError(
                f"targets: found {len(src)} sources and {len(tgt)} targets, expected one for each source. "
                "To compare several targets, repeat their source."
            )
        for index, target in enumerate(tgt):
            if target.truncated:
                raise InputError(
                    f"targets[{index}]: has more than the {self.model.config.max_length - 1} tokens "
                    "that the model takes. Shorten it."
                )
        lengths = [max(len(source.ids), len(target.ids)) for source, target in zip(src, tgt, strict=True)]
        log_probs = [0.0] * len(src)
        with evaluating(self.model), torch.no_grad():
            for batch in in_batches(lengths, range(len(src)), 1, self.config.batch_tokens):
                outputs = [tgt[place].ids for place in batch]
                found = forced_log_probs(self.model, self._src_ids([src[place] for place in batch]), outputs)
                for place, log_prob in zip(batch, found, strict=True):
                    log_probs[place] = log_prob
        return log_probs

    def _translated(
        self,
        texts: Sequence[str],
        start: int,
        options: DecodeConfig | None,
        attention: bool,
        progress: Progress | None,
    ) -> list[Translation]:
        """``translate``, where the first text is number ``start`` of the whole input."""
        options = self.config if options is None else options
        if not isinstance(options, DecodeConfig):
            raise InputError(
                f"options: found {type(options).__name__}, expected a DecodeConfig. Write DecodeConfig(beam=5)."
            )
        sources = read_sources(texts, self.src_tokenizer, self.model.config)
        results = [Translation(source.text, [], source.truncated, [EMPTY]) for source in sources]
        places = [place for place, source in enumerate(sources) if not source.is_empty]
        done = len(sources) - len(places)
        copies = options.n_best if options.sample else options.beam
        lengths = [len(source.ids) for source in sources]
        with evaluating(self.model):
            for batch in in_batches(lengths, places, copies, options.batch_tokens):
                positions = [start + place for place in batch]
                made = self._batch([sources[place] for place in batch], positions, options, attention)
                for place, translation in zip(batch, made, strict=True):
                    results[place] = translation
                done += len(batch)
                if progress is not None:
                    progress(done)
        return results

    @torch.no_grad()
    def _batch(
        self, sources: Sequence[Source], positions: Sequence[int], options: DecodeConfig, attention: bool
    ) -> list[Translation]:
        """The translations of sources that fit into one batch."""
        src_ids = self._src_ids(sources)
        limits = [output_limit(source, self.model.config, options) for source in sources]
        if options.sample:
            found = sample(self.model, src_ids, limits, options, positions)
        else:
            found = beam_search(self.model, src_ids, limits, options)
        weights: list[Tensor] | list[None] = [None] * len(found)
        if attention:
            weights = forced_attention(self.model, src_ids, [candidates[0].ids for candidates in found])
        return [
            self._translation(source, candidates, best_weights)
            for source, candidates, best_weights in zip(sources, found, weights, strict=True)
        ]

    def _translation(self, source: Source, candidates: Sequence[Candidate], weights: Tensor | None) -> Translation:
        best, *others = candidates
        hypotheses = [self._hypothesis(best, weights), *(self._hypothesis(other, None) for other in others)]
        return Translation(source.text, self.src_tokenizer.to_tokens(source.ids), source.truncated, hypotheses)

    def _hypothesis(self, candidate: Candidate, weights: Tensor | None) -> Hypothesis:
        return Hypothesis(
            text=self.tgt_tokenizer.to_text(candidate.ids),
            tokens=self.tgt_tokenizer.to_tokens(candidate.ids),
            ids=candidate.ids,
            log_prob=candidate.log_prob,
            score=candidate.score,
            truncated=candidate.truncated,
            attention=weights,
        )

    def _src_ids(self, sources: Sequence[Source]) -> Tensor:
        device = next(self.model.parameters()).device
        return padded([source.ids for source in sources], self.model.config.pad_id, device)
