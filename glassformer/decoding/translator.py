"""The translator: tokenizers and an engine, from texts to translations and from targets to scores.

Texts are sorted by length and translated in batches; the results are in the order of the texts.
"""

import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Self

from glassformer.bundled import BUNDLED
from glassformer.decoding.batching import check_start, check_texts, refuse_one_str
from glassformer.decoding.confidence.confidence import Confidence
from glassformer.decoding.engines.auto_engine import AutoEngine, find_fast_device, load_auto
from glassformer.decoding.engines.ctranslate2_run import load_engine
from glassformer.decoding.loading import (
    check_loading,
    choose_engine,
    find_runs,
    load_ensemble,
    make_torch_engine,
    open_torch,
)
from glassformer.decoding.request import Request, make_requests
from glassformer.decoding.restore.drafts import can_be_streamed
from glassformer.decoding.scoring import Scored, score_pairs
from glassformer.decoding.sentence_translator import SentenceTranslator
from glassformer.decoding.sentences import read_requests
from glassformer.decoding.translation import Translation
from glassformer.errors import ConfigError, InputError, check_type
from glassformer.run_directory import RunDirectory
from glassformer.settings import DecodeConfig, RunConfig
from glassformer.text.codes.code import Parts, join_parts
from glassformer.text.steps.passage import STEPS
from glassformer.text.steps.signs import plain_signs
from glassformer.text.steps.step import Step
from glassformer.text.steps.target_language import find_targets
from glassformer.text.tokenizer.tokenizer import Tokenizer, Tokenizers, check_tokenizers

if TYPE_CHECKING:
    from glassformer.decoding.engines.engine import Engine
    from glassformer.model import Transformer

Review = Callable[[Sequence[Parts], list[Translation]], list[Translation]]
"""Looks at the translations of sentences, and gives others where they lack something."""


class Translator:
    """A model with its tokenizers; ``config`` holds the default options of all methods.

    With ``others`` it is an ensemble, which uses the mean of all models' probabilities, and the first one's
    ``confidence``. The models stay on their device and are in evaluation mode for the duration of a call.

    ``precision`` (float32, bf16) makes converted copies, which translate faster; ``workers`` starts processes
    that share the batches and end with ``close`` or a ``with`` block. ``languages``: such as ("en", "de"), or None.
    """

    def __init__(
        self,
        model: "Transformer",
        src_tokenizer: Tokenizer,
        tgt_tokenizer: Tokenizer,
        config: DecodeConfig,
        *,
        others: "Sequence[Transformer]" = (),
        precision: str | None = None,
        workers: int | None = None,
        confidence: Confidence | None = None,
        languages: tuple[str, str] | None = None,
    ) -> None:
        """Raises ``TokenizerError`` for tokenizers of another model, ``ConfigError`` for precision or workers."""
        from glassformer.model.transformer import Transformer

        self._models: tuple[Transformer, ...] = (model, *others)
        for member in self._models:
            check_type("model, others", member, Transformer, "Transformers. Translator.load(run) makes all of it")
            check_tokenizers(member.config, src_tokenizer, tgt_tokenizer)
        engine = make_torch_engine(self._models, precision, workers)
        self._set_up(engine, (src_tokenizer, tgt_tokenizer), config, confidence, languages)

    def _set_up(
        self,
        engine: "Engine",
        tokenizers: Tokenizers,
        config: DecodeConfig,
        confidence: Confidence | None,
        languages: tuple[str, str] | None,
    ) -> None:
        check_type("config", config, DecodeConfig, "a DecodeConfig")
        check_type("confidence", confidence, Confidence | None, "a Confidence or None")
        check_type("languages", languages, tuple | None, 'a tuple of two codes, ("en", "de"), or None')
        self.src_tokenizer, self.tgt_tokenizer = self._tokenizers = tokenizers
        self.config, self.confidence, self.languages = config, confidence, languages
        self.plain_signs = {} if confidence is None else plain_signs(confidence.seen.characters)
        self.targets = find_targets(tokenizers[0].entries())
        self._sentences = SentenceTranslator(engine, tokenizers, confidence, languages)

    @classmethod
    def load(
        cls,
        directory: str | Path | Sequence[str | Path] = BUNDLED,
        *,
        device: str = "auto",
        engine: str = "auto",
        precision: str | None = None,
        workers: int | None = None,
        shortlist: bool = False,
    ) -> Self:
        """Load a run directory, or several as an ensemble, on ``device``: auto, cpu, cuda, cuda:1 ...

        The default, also named "bundled", is the small English-German model that comes with the package. An ensemble
        takes its options from the first run. Raises ``TokenizerError`` if the runs' tokenizers differ.

        ``engine`` auto is CTranslate2 where it is installed, has these options, and was shown to translate this run
        as PyTorch does; else PyTorch. A run is exported and compared once. Others are torch and ctranslate2: the
        latter runs one model, and its workers are threads, by default one a core, on a GPU one. ``ConfigError`` for
        what it does not have. With ``shortlist``, which needs ctranslate2, only tokens that may translate those of
        the batch are written, as the run's shortlist says. The precisions int8 and, on a GPU, float16 need it, too.
        """
        check_loading(engine, precision, workers, shortlist)
        places = find_runs(directory)
        run = RunDirectory(places[0])
        loaded: tuple[Engine, Tokenizers, RunConfig] | None = None
        engine = choose_engine(engine, precision, shortlist=shortlist)
        fast_device = find_fast_device(device, precision) if engine == "auto" and len(places) == 1 else None
        if fast_device is not None:
            loaded = load_auto(run, fast_device, partial(open_torch, run, device, workers), workers)
        elif engine == "ctranslate2":
            loaded = load_engine(places, device, precision, workers, shortlist=shortlist)
        if loaded is not None:
            confidence = Confidence.read(run.confidence_file)
            return cls.from_engine(*loaded[:2], loaded[2].decode, confidence, loaded[2].languages)
        from glassformer.threads import fit_threads

        first, *others = load_ensemble(places, device)
        fit_threads(first.model)
        return cls(
            first.model,
            first.src_tokenizer,
            first.tgt_tokenizer,
            first.config.decode,
            others=[other.model for other in others],
            precision=precision,
            workers=workers,
            confidence=Confidence.read(run.confidence_file),
            languages=first.config.languages,
        )

    def __repr__(self) -> str:
        count = 1 if isinstance(self._sentences.engine, AutoEngine) else len(self._models)
        models = f"{count or 'no visible'} model{'s' * (count != 1)}"
        sizes = f"{self.src_tokenizer.size:,} source and {self.tgt_tokenizer.size:,} target tokens"
        return f"Translator({models}, {sizes}, beam {self.config.beam})"

    @classmethod
    def from_engine(
        cls,
        engine: "Engine",
        tokenizers: Tokenizers,
        config: DecodeConfig,
        confidence: Confidence | None = None,
        languages: tuple[str, str] | None = None,
    ) -> Self:
        """A translator that runs an engine, with its tokenizers of source and target, and that shows no model."""
        translator = cls.__new__(cls)
        translator._models = ()
        translator._set_up(engine, tokenizers, config, confidence, languages)
        return translator

    @property
    def models(self) -> "tuple[Transformer, ...]":
        """The model, or those of an ensemble; none for engine ctranslate2.

        Engine auto loads its model when this is read, and from then on translates with it: it may be changed.
        """
        engine = self._sentences.engine
        if isinstance(engine, AutoEngine):
            self._models = tuple(engine.torch.models)
            used = self.used_engines
            self._sentences = SentenceTranslator(engine.torch, self._tokenizers, self.confidence, self.languages)
            self._sentences.used_engines |= used
        return self._models

    @property
    def model(self) -> "Transformer":
        """The first model; raises ``ConfigError`` for an engine other than torch, which has none that can be seen."""
        if not self.models:
            raise ConfigError(
                "engine: found ctranslate2, which shows no model, expected torch. Leave the engine out."
            )
        return self.models[0]

    @property
    def used_engines(self) -> set[str]:
        """What has translated so far: torch, ctranslate2."""
        return self._sentences.used_engines

    def close(self) -> None:
        """End the worker processes, if there are any."""
        self._sentences.engine.close()

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
    ) -> list[Translation]:
        """One translation for each text, in order; a blank text gives an empty one.

        ``prefixes`` are what each output begins with, ``constraints`` the phrases that each must contain, ``banned``
        the phrases that none may contain. ``attention`` adds the cross-attention weights to each best hypothesis, of
        an ensemble those of the first model. A text with more tokens than the model takes is cut and flagged. Raises
        ``InputError`` if ``texts`` is not a list of str, or for constraints that cannot be tokenized.
        """
        check_texts("texts", texts)
        check_type("attention", attention, bool, "True or False")
        requests = make_requests(texts, prefixes, constraints, banned)
        return self.translate_requests(requests, options, attention=attention)

    def translate_stream(
        self,
        texts: Iterable[str | Request],
        options: DecodeConfig | None = None,
        *,
        attention: bool = False,
        chunk: int = 1000,
        start: int = 0,
    ) -> Iterator[Translation]:
        """``translate`` for any number of texts: ``chunk`` of them are read, translated and yielded at a time.

        A ``Request`` gives a text with its constraints. ``start`` is the number of the first text in the whole input,
        if these are a part of it: the random numbers of sampling follow from it.
        """
        refuse_one_str("texts", texts)
        check_type("attention", attention, bool, "True or False")
        if not isinstance(chunk, int) or isinstance(chunk, bool) or not 1 <= chunk <= sys.maxsize:
            raise InputError(f"chunk: found {chunk!r:.40}, expected 1 or more texts to read at a time.")
        check_start(start)
        check_type("texts", texts, Iterable, "an iterable of texts. Give a list of str")
        remaining = iter(texts)
        while texts_read := list(islice(remaining, chunk)):
            check_texts("texts", [one.source if isinstance(one, Request) else one for one in texts_read])
            requests = [one if isinstance(one, Request) else Request(one) for one in texts_read]
            yield from self.translate_requests(requests, options, attention=attention, start=start)
            start += len(texts_read)

    def stream(
        self, text: str | Request, options: DecodeConfig | None = None, *, start: int = 0
    ) -> Generator[str, None, Translation]:
        """The translation of one text in pieces, each as soon as it is certain; joined they are its best output.

        Greedy search and sampling yield each token, a beam search what all its hypotheses share. ``start`` is the
        text's number in the whole input, which seeds sampling. The generator's value is the translation.
        """
        options = self._options(options)
        check_start(start)
        if not isinstance(text, Request):
            check_texts("text", [text])
            text = Request(text)
        config = self._sentences.engine.config
        (of_request,) = read_requests(
            [text], start, options, config, self.tgt_tokenizer, plain_signs=self.plain_signs, targets=self.targets
        )
        results, shown = list[Translation](), ""
        for sentence in of_request.sentences:
            if not can_be_streamed(sentence.parts):  # its codes have no place yet
                results += self._sentences.translate([sentence], options)
                continue
            done, written = [one.parts for one in results], ""
            pieces = self._sentences.stream(sentence, options)
            while True:
                try:
                    written += next(pieces)
                except StopIteration as end:
                    results.append(end.value)
                    break
                certain = join_parts(of_request.passage.restore_start([*done, (written.strip(),)]))
                yield certain[len(shown) :]
                shown += certain[len(shown) :]
        whole = of_request.join(results)
        yield whole.text[len(shown) :]
        return whole

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[float]:
        """The log-probability (natural logarithm) of each target, eos included, given its source.

        Raises ``InputError`` unless there is one target for each source, none longer than the model takes.
        """
        return [one.log_prob for one in self.score_tokens(sources, targets)]

    def score_tokens(
        self, sources: Sequence[str], targets: Sequence[str], options: DecodeConfig | None = None, *, start: int = 0
    ) -> list[Scored]:
        """``score`` by token and with the length penalty; ``start``: the first pair's number, for errors."""
        options = self._options(options)
        check_start(start)
        return score_pairs(sources, targets, self._sentences.engine, self._tokenizers, options, start=start)

    def _options(self, options: DecodeConfig | None) -> DecodeConfig:
        options = self.config if options is None else options
        check_type("options", options, DecodeConfig, "a DecodeConfig. Write DecodeConfig(beam=5)")
        return options

    def translate_requests(
        self,
        requests: Sequence[Request],
        options: DecodeConfig | None = None,
        *,
        start: int = 0,
        attention: bool = False,
        steps: Sequence[Step] = STEPS,
        check_content: bool = False,
        review: Review | None = None,
    ) -> list[Translation]:
        """The translation of each request, whose text passes ``steps``; the first is number ``start`` of the input.

        ``check_content``, as in documents: what has lost a number or a sign is translated again with these as codes,
        and whether a short translation lacks a word is seen by its attention, which is computed. ``review`` is given
        each sentence and its translation.
        """
        options = self._options(options)
        config = self._sentences.engine.config
        read = read_requests(
            requests, start, options, config, self.tgt_tokenizer,
            steps=steps, plain_signs=self.plain_signs, targets=self.targets,
        )  # fmt: skip
        sentences = [one for of_request in read for one in of_request.sentences]
        keys = [
            index if options.sample else (one.parts, one.constraints, one.token)
            for index, one in enumerate(sentences)
        ]
        unique = dict(zip(keys, sentences, strict=True))
        results = self._sentences.translate(list(unique.values()), options, attention, check_content)
        if review is not None:
            results = review([one.parts for one in unique.values()], results)
        found = dict(zip(unique, results, strict=True))
        waiting = iter(keys)
        return [of_one.join([found[next(waiting)] for _ in of_one.sentences]) for of_one in read]
