"""Kinds of walks: forced pass, generation, training step; what `trace` asks for.

A training step runs on a copy of the model, with its own dropout masks.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from glassformer.checkpoint import newest_valid, read_tensors
from glassformer.decoding import Translator
from glassformer.decoding.batching import check_texts, output_limit, read_sources
from glassformer.decoding.confidence.confidence import Confidence
from glassformer.decoding.search.job import Constraints, SearchJob
from glassformer.errors import ConfigError, check_type
from glassformer.explain.recording.edits import parse_edits
from glassformer.explain.recording.recording import check_recording, record_pass, record_search
from glassformer.explain.recording.sentence_batch import SentenceBatch, read_sentences, text_of_ids
from glassformer.explain.walk import Walk, build_walk
from glassformer.run_directory import RunDirectory
from glassformer.settings import WARMUP, DecodeConfig, TrainConfig, flag
from glassformer.trace import Step, tracing
from glassformer.trace.taps import Edit, check_selection
from glassformer.training.loop.checkpointing import TrainState
from glassformer.training.loop.optimizer import OPTIMIZER, freeze, new_optimizer, restore_optimizer
from glassformer.training.loop.strategy import ParallelStrategy
from glassformer.training.loop.update import update

_PROBABILITIES = "output_projection.probabilities"
_CHOICE = ("choice.next_ids", "choice.next_probabilities")


def walk(
    translator: Translator,
    sources: Sequence[str],
    targets: Sequence[str] | None = None,
    *,
    only: str = "*",
    edits: Mapping[str, Edit] | None = None,
) -> Walk:
    """Run the model over sentences and keep steps whose address matches ``only``.

    In a glob ``*`` stands for any characters, with dots, ``?`` for one: ``encoder.layers.?.output``. Without
    ``targets`` the model translates first, without ``edits``, which are those of ``tracing``. ``InputError`` for
    sentences that do not fit the model, ``TraceError`` if nothing matches.
    """
    check_selection(only, edits)
    check_type("translator", translator, Translator, "a Translator; Translator.load gives one")
    _ = translator.model  # the shown pass translates, too
    sentences = read_sentences(translator, sources, targets)
    return walk_through(translator, sentences, only=only, edits=edits)


def walk_through(
    translator: Translator, sentences: SentenceBatch, *, only: str = "*", edits: Mapping[str, Edit] | None = None
) -> Walk:
    """``walk`` over sentences of ``read_sentences``."""
    model = translator.model
    # The choice comes from the probabilities.
    chooses = any(fnmatchcase(address, only) for address in _CHOICE)
    needed = "*" if chooses and not fnmatchcase(_PROBABILITIES, only) else only
    if needed == "*":
        n_sentences, n_src = sentences.batch.src_ids.shape
        check_recording(model.config, n_sentences, n_src, sentences.batch.tgt_in_ids.shape[1])
    trace = record_pass(model, sentences.batch.src_ids, sentences.batch.tgt_in_ids, needed, edits=edits)
    steps = [*sentences.steps, *trace]
    if chooses:
        best, ids = trace[_PROBABILITIES].max(dim=-1)
        steps += [Step(address, ("batch", "tgt"), value) for address, value in zip(_CHOICE, (ids, best), strict=True)]
    steps += [] if edits else sentences.answer_steps
    trace.steps = [step for step in steps if fnmatchcase(step.address, only)]
    return build_walk(translator, sentences, trace, only=only)


def walk_generation(
    translator: Translator,
    sources: Sequence[str],
    options: DecodeConfig | None = None,
    *,
    only: str = "*",
    constraints: Sequence[Constraints] | None = None,
) -> Walk:
    """Translate the sentences as one batch and keep all steps of model and search.

    ``options`` are those of ``Translator.translate``; ``constraints``: one entry a source. ``InputError`` for
    sentences and constraints that cannot be met, ``TraceError`` if ``only`` matches nothing.
    """
    check_selection(only, None)
    check_texts("sources", sources)
    options = options or translator.config
    sentences = read_sentences(translator, sources, [""] * len(sources))
    model = translator.model
    read = read_sources(sentences.sources, translator.src_tokenizer, model.config)
    limits = [output_limit(source.ids, model.config, options) for source in read]
    # The search tells each row's sentence.
    needed = only if fnmatchcase("search.", only) else "*"
    job = SearchJob([source.ids for source in read], limits, options, constraints=constraints)
    trace, found = record_search(model, job, needed)
    targets = tuple(translator.tgt_tokenizer.to_text(candidates[0].ids) for candidates in found)
    texts = tuple(text.answer(target) for text, target in zip(sentences.texts, targets, strict=True))
    sentences = replace(sentences, targets=targets, tgt_derivations=None, texts=texts)
    before = [step for step in sentences.steps if not step.name.startswith(("tgt", "ntokens"))]
    trace.steps = [*before, *trace, *sentences.answer_steps]
    walked = build_walk(translator, sentences, trace, only=only, kind="generation", decode=options)
    trace.steps = [step for step in trace if fnmatchcase(step.address, only)]
    return walked


def walk_training(
    translator: Translator,
    sources: Sequence[str],
    targets: Sequence[str],
    train: TrainConfig,
    *,
    run: Path | None = None,
    only: str = "*",
) -> Walk:
    """Update a copy of the model and keep steps and gradients; raises as ``walk``.

    Counters and moments: ``run``'s latest checkpoint, else zero. One float32 pass, no R-Drop.
    """
    train = replace(
        train, r_drop=0.0, precision="float32", warmup=train.warmup or WARMUP[translator.model.config.norm]
    )
    sentences = read_sentences(translator, sources, targets)
    model = copy.deepcopy(translator.model).train()
    freeze(model, train.freeze, report=lambda _: None)
    strategy, optimizer, state = ParallelStrategy(model, train), new_optimizer(model, train), TrainState()
    saved: dict[str, Tensor] = {}
    latest = None if run is None else newest_valid(RunDirectory(run).latest, lambda _: None)
    if latest is not None:
        state = TrainState.read(latest)
        restore_optimizer(strategy, optimizer, latest)
        saved = read_tensors(latest, OPTIMIZER)
    device = next(model.parameters()).device
    own_dropout = torch.random.fork_rng([device] if device.type == "cuda" else [])
    batch = sentences.batch
    with own_dropout, tracing(model, only=only, gradients=True) as trace:
        torch.manual_seed(train.seed)
        update(strategy, optimizer, [batch], tokens=batch.target_tokens, state=state, config=train)
    trace.steps = [step for step in (*sentences.steps, *trace) if fnmatchcase(step.address, only)]
    return build_walk(translator, sentences, trace, only=only, kind="training", train=train, saved=saved,
                      counters=asdict(state))  # fmt: skip


@dataclass(frozen=True)
class WalkResult:
    """The requested walk; with edits, ``plain`` is the one without."""

    walk: Walk
    plain: Walk | None = None


@dataclass(frozen=True, kw_only=True)
class WalkRequest:
    """A walk of a run; ``options``: for ``generate``; ``from_ids``: "40 3047"."""

    run: Path
    sources: Sequence[str]
    targets: Sequence[str] | None = None
    generate: bool = False
    training: bool = False
    verify: bool = False
    from_ids: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    edits: Sequence[str] = ()
    only: str = "*"
    device: str = "auto"

    def __post_init__(self) -> None:
        if self.targets is not None and len(self.targets) != len(self.sources):
            raise ConfigError(
                f"--tgt: found {len(self.targets)}, expected one for each of the {len(self.sources)} texts, or none."
            )
        modes = {"--generate": self.generate, "--training": self.training, "--edit": bool(self.edits)}
        chosen = [name for name, given in modes.items() if given]
        if len(chosen) > 1:
            raise ConfigError(f"trace: found {' and '.join(chosen)}, expected one of them. Make one walk for each.")
        if self.edits and self.verify:
            raise ConfigError("trace: found --edit and --verify, but no equation holds for an edited step. Drop one.")
        if self.only != "*" and (self.edits or self.verify):
            raise ConfigError(
                "trace: found --only, but --verify and --edit need the whole pass. Drop it, or make two walks."
            )
        if self.training and self.targets is None:
            raise ConfigError(
                "--training: found no --tgt, expected the target of each TEXT, from which the step learns."
            )
        if self.generate and self.targets is not None:
            raise ConfigError("--generate: found --tgt, but a generation makes its own target. Drop one of them.")
        if self.options and not self.generate:
            names = ", ".join(flag(name, value) for name, value in self.options.items())
            raise ConfigError(f"{names}: found without --generate, and only --generate searches or samples. Add it.")

    def make(self) -> WalkResult:
        """Load the run and make the walk."""
        directory = RunDirectory(self.run)
        run = directory.load(self.device)
        confidence = Confidence.read(directory.confidence_file)
        tokenizers = run.src_tokenizer, run.tgt_tokenizer
        languages = run.config.languages
        translator = Translator(run.model, *tokenizers, run.config.decode, confidence=confidence, languages=languages)
        sources = [text_of_ids(translator, ids) for ids in self.sources] if self.from_ids else self.sources
        if self.generate:
            options = translator.config.with_changes(self.options)
            return WalkResult(walk_generation(translator, sources, options, only=self.only))
        if self.training:
            learned = self.targets or ()
            made = walk_training(translator, sources, learned, run.config.train, run=self.run, only=self.only)
            return WalkResult(made)
        plain = walk(translator, sources, self.targets, only=self.only)
        if not self.edits:
            return WalkResult(plain)
        edits = parse_edits(self.edits, plain, translator)
        return WalkResult(walk_through(translator, plain.sentences, edits=edits), plain)
