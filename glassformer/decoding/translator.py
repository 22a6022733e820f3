"""The translator: tokenizers and an engine, from texts to translations and from targets to scores.

Texts are sorted by length and translated in batches; the results are in the order of the texts.
"""

import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Self

from glassformer.bundled import BUNDLED
from glassformer.decoding.batching import check_start, check_texts, plan_decoding, refuse_one_str
from glassformer.decoding.confidence.confidence import Confidence
from glassformer.decoding.engines.auto_engine import AutoEngine, find_fast_device, load_auto
from glassformer.decoding.engines.batch_translator import BatchTranslator
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
from glassformer.decoding.scoring import Scored, score_pairs
from glassformer.decoding.sentences import (
    SourceSentence,
    join_attention,
    join_sentences,
    split_outputs,
    split_requests,
)
from glassformer.decoding.translation import EMPTY, Hypothesis, Translation
from glassformer.errors import ConfigError, InputError, check_type
from glassformer.run_directory import RunDirectory
from glassformer.settings import DecodeConfig
from glassformer.text.tokenizer.tokenizer import Tokenizer, Tokenizers, check_tokenizers

if TYPE_CHECKING:
    from glassformer.decoding.engines.engine import Engine
    from glassformer.model import Transformer

Progress = Callable[[int], None]


class Translator:
    """A model with its tokenizers; ``config`` holds the default options of all methods.

    With ``others`` it is an ensemble, which uses the mean of all models' probabilities, and the first one's
    ``confidence``. The models stay on their device and are in evaluation mode for the duration of a call.

    ``precision`` (float32, bf16) makes converted copies, which translate faster; ``workers`` starts processes
    that share the batches and end with ``close`` or a ``with`` block. Walks and traces use the models themselves.
    ``used_engines`` names what has translated so far: torch, ctranslate2. ``languages`` are the codes of source and
    target, such as ("en", "de"), or None where the run does not say them.
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
        self._batches = BatchTranslator(engine, self.tgt_tokenizer)
        self._config = engine.config
        self.used_engines: set[str] = set()

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

        ``engine`` auto is CTranslate2 where it is installed, has these options, and was shown to translate this
        run as PyTorch does; else PyTorch. A run is exported and compared once, when its training has ended. Others
        are torch and ctranslate2: the latter runs one model on the CPU or a CUDA GPU, exports it when it is first
        used, and loads no PyTorch afterwards; its workers are threads, by default one a core, on a GPU one.
        ``ConfigError`` for what it does not have. With ``shortlist`` it writes only tokens that may translate those
        of the batch, as the run's shortlist says, and is faster. Auto is ctranslate2 with a shortlist, and with the
        precisions int8 and, on a GPU, float16, which PyTorch does not have.
        """
        check_loading(engine, precision, workers, shortlist)
        places = find_runs(directory)
        confidence_file = RunDirectory(places[0]).confidence_file
        loaded: Engine | None = None
        engine = choose_engine(engine, precision, shortlist=shortlist)
        is_auto = engine == "auto" and len(places) == 1
        fast_device = find_fast_device(device, precision) if is_auto else None
        if fast_device is not None:
            run = RunDirectory(places[0])
            loaded, tokenizers, config = load_auto(
                run, fast_device, partial(open_torch, run, device, workers), workers
            )
        elif engine == "ctranslate2":
            loaded, tokenizers, config = load_engine(places, device, precision, workers, shortlist=shortlist)
        if loaded is not None:
            confidence = Confidence.read(confidence_file)
            return cls.from_engine(loaded, tokenizers, config.decode, confidence, config.languages)
        from glassformer.threads import fit_threads

        first, *others = load_ensemble(places, device)
        fit_threads(first.model)
        return cls(
            first.model,
            first.src_tokenizer,
            first.tgt_tokenizer,
            first.config.decode,
            others=[run.model for run in others],
            precision=precision,
            workers=workers,
            confidence=Confidence.read(confidence_file),
            languages=first.config.languages,
        )

    def __repr__(self) -> str:
        count = 1 if isinstance(self._batches.engine, AutoEngine) else len(self._models)
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
        engine = self._batches.engine
        if isinstance(engine, AutoEngine):
            self._models = tuple(engine.torch.models)
            self._batches = BatchTranslator(engine.torch, self.tgt_tokenizer)
        return self._models

    @property
    def model(self) -> "Transformer":
        """The first model; raises ``ConfigError`` for an engine other than torch, which has none that can be seen."""
        if not self.models:
            raise ConfigError(
                "engine: found ctranslate2, which shows no model, expected torch. Leave the engine out."
            )
        return self.models[0]

    def close(self) -> None:
        """End the worker processes, if there are any."""
        self._batches.engine.close()

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
        """One translation for each text, in order; a blank text gives an empty one.

        ``prefixes`` are what each output begins with, ``constraints`` the phrases that each must contain, ``banned``
        the phrases that none may contain. ``attention`` adds the cross-attention weights to each best hypothesis, of
        an ensemble those of the first model. ``progress`` is called after each batch with the number of texts done so
        far. A text with more tokens than the model takes is cut and flagged ``source_truncated``. Raises
        ``InputError`` if ``texts`` is not a list of str, or for constraints that cannot be tokenized.
        """
        check_texts("texts", texts)
        check_type("progress", progress, Callable | None, "a function of how many texts are done")
        check_type("attention", attention, bool, "True or False")
        requests = make_requests(texts, prefixes, constraints, banned)
        return self._translate(requests, 0, self._options(options), attention, progress)

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
            check_texts("texts", [one.text if isinstance(one, Request) else one for one in texts_read])
            requests = [one if isinstance(one, Request) else Request(one) for one in texts_read]
            yield from self._translate(requests, start, self._options(options), attention, None)
            start += len(texts_read)

    def stream(
        self, text: str | Request, options: DecodeConfig | None = None, *, start: int = 0
    ) -> Generator[str, None, Translation]:
        """The translation of one text in pieces, each as soon as it is certain; joined they are its best output.

        Greedy search and sampling yield each token, a beam search what all its hypotheses share. ``start`` is the
        text's number in the whole input, which seeds sampling. The generator's value is the translation, which says,
        for instance, whether the length limit cut it. Raises ``InputError`` as ``translate`` does.
        """
        options = self._options(options)
        check_start(start)
        request = text if isinstance(text, Request) else Request(text)
        check_texts("text", [request.text])
        sentences, results = self._sentences([request], start, options), list[Translation]()
        for sentence in sentences:
            if sentence.before:
                yield sentence.before
            best = replace(EMPTY, text=sentence.copied_text)
            if sentence.needs_model and sentence.coded:  # its codes have no place before it is whole
                results += self._translate_coded([sentence], options, attention=False)
                best = results[-1].hypotheses[0]
                yield best.text
            elif sentence.needs_model:
                best = yield from self._batches.stream(sentence, options)
                results.append(self._result(sentence, [best]))
            else:
                yield sentence.copied_text
                results.append(self._result(sentence, [best]))
            yield sentence.gap_after(best.text)
        return next(join_sentences([request], sentences, results))

    def add_attention(
        self, translations: Sequence[Translation], options: DecodeConfig | None = None
    ) -> list[Translation]:
        """The same translations, made with these options and no constraints, with attention.

        That costs one pass of the model over each output, and no other search. One that was cut has none, nor one
        whose codes were put back.
        """
        options = self._options(options)
        check_type("translations", translations, Sequence, "a list of translations")
        for number, one in enumerate(translations):
            check_type(f"translations[{number}]", one, Translation, "a Translation, as translate returns it")
        sentences = self._sentences([Request(one.source) for one in translations], 0, options)
        outputs = [split_outputs(one.hypotheses[0].ids) for one in translations]
        counts = Counter(sentence.request for sentence in sentences if sentence.needs_model)
        coded = {sentence.request for sentence in sentences if sentence.coded}
        whole = [n for n, of_one in enumerate(outputs) if of_one and len(of_one) == counts[n] and n not in coded]
        read = [one for one in sentences if one.needs_model and one.request in whole]
        weights = self._batches.attention(read, [ids for number in whole for ids in outputs[number]], options)
        found = list(translations)
        for number in whole:
            joined = join_attention([next(weights) for _ in outputs[number]])
            best, *others = translations[number].hypotheses
            best = replace(best, attention=joined, mean_attention=self._batches.engine.mean_attention)
            found[number] = replace(translations[number], hypotheses=[best, *others])
        return found

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[float]:
        """The log-probability (natural logarithm) of each target, eos included, given its source.

        Raises ``InputError`` unless there is one target for each source, none longer than the model takes.
        """
        return [one.log_prob for one in self.score_tokens(sources, targets)]

    def score_tokens(
        self, sources: Sequence[str], targets: Sequence[str], options: DecodeConfig | None = None, *, start: int = 0
    ) -> list[Scored]:
        """``score`` in detail: each token's log-probability, and the score with the length penalty.

        ``start`` is the number of the first pair in the whole input, for error messages.
        """
        options = self._options(options)
        check_start(start)
        return score_pairs(sources, targets, self._batches.engine, self._tokenizers, options, start=start)

    def _options(self, options: DecodeConfig | None) -> DecodeConfig:
        options = self.config if options is None else options
        check_type("options", options, DecodeConfig, "a DecodeConfig. Write DecodeConfig(beam=5)")
        return options

    def _result(self, sentence: SourceSentence, hypotheses: list[Hypothesis], engine: str = "") -> Translation:
        source = sentence.source
        if not sentence.needs_model:
            return Translation(source.text, [], source.truncated, hypotheses, engine)
        doubt, tokens = None, self.src_tokenizer.to_tokens(source.ids)
        if self.confidence is not None:
            chances, doubt = self.confidence.judge(source.text, hypotheses)
            pairs = zip(hypotheses, chances, strict=True)
            hypotheses = [replace(one, confidence=chance) for one, chance in pairs]
        return Translation(source.text, tokens, source.truncated, hypotheses, engine, doubt=doubt)

    def _sentences(self, requests: Sequence[Request], start: int, options: DecodeConfig) -> list[SourceSentence]:
        return split_requests(requests, start, options, self._config, self._tokenizers)

    def _translate(
        self,
        requests: Sequence[Request],
        start: int,
        options: DecodeConfig,
        attention: bool,
        progress: Progress | None,
    ) -> list[Translation]:
        """``translate``, where the first text is number ``start`` of the whole input."""
        sentences = self._sentences(requests, start, options)
        is_coded = [sentence.coded is not None and sentence.needs_model for sentence in sentences]
        coded, plain = ([n for n, one in enumerate(is_coded) if one == wanted] for wanted in (True, False))
        found = self._translate_coded([sentences[number] for number in coded], options, attention)
        results = dict(zip(coded, found, strict=True))
        remaining = Counter(sentences[number].request for number in plain if sentences[number].needs_model)

        def report(done: Iterable[int]) -> None:
            nonlocal remaining
            remaining -= Counter(sentences[plain[number]].request for number in done)
            if progress is not None:
                progress(len(requests) - len(remaining))

        if coded:
            report([])
        found = self._search([sentences[number] for number in plain], options, attention, report)
        results |= dict(zip(plain, found, strict=True))
        return list(join_sentences(requests, sentences, [results[number] for number in range(len(sentences))]))

    def _translate_coded(
        self, sentences: Sequence[SourceSentence], options: DecodeConfig, attention: bool
    ) -> list[Translation]:
        """The translation of each sentence, with the codes that it has."""
        if not sentences:
            return []
        from glassformer.decoding.codes.coded_texts import translate_sentences

        def search(read: Sequence[SourceSentence], with_attention: bool) -> list[Translation]:
            return self._search(read, options, with_attention)

        return translate_sentences(sentences, search, self._config, self._tokenizers, attention=attention)

    def _search(
        self,
        sentences: Sequence[SourceSentence],
        options: DecodeConfig,
        attention: bool,
        report: Callable[[Iterable[int]], None] = lambda _: None,
    ) -> list[Translation]:
        """The translation of each sentence as it is read; ``report`` gets the numbers that each batch has done."""
        results = [self._result(one, [replace(EMPTY, text=one.copied_text)]) for one in sentences]
        numbers = [number for number, sentence in enumerate(sentences) if sentence.needs_model]
        lengths = [len(sentence.source.ids) for sentence in sentences]
        engine = self._batches.engine
        plan = plan_decoding(
            lengths, numbers, options.rows_per_source, options.batch_tokens, engine.workers,
            max_efficient_sources=engine.max_efficient_sources,
        )  # fmt: skip
        batches = [[sentences[number] for number in batch] for batch in plan]
        for batch_number, of_batch, name in self._batches.translate(batches, options, attention=attention):
            for number, hypotheses in zip(plan[batch_number], of_batch, strict=True):
                results[number] = self._result(sentences[number], hypotheses, name)
            self.used_engines.add(name)
            report(plan[batch_number])
        return results
