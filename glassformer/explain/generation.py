"""A generation walked through: every step of a search or a draw, cached or not, in one trace."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

import torch

from glassformer.config import DecodeConfig
from glassformer.decoding import Translator
from glassformer.decoding.batching import output_limit, read_sources
from glassformer.decoding.beam_search import beam_search
from glassformer.decoding.constraints import Demands
from glassformer.decoding.sampling import sample
from glassformer.decoding.steps import DecoderSteps
from glassformer.explain.sentences import read_sentences
from glassformer.explain.walk import Walk, made_walk
from glassformer.model.inference import evaluating
from glassformer.trace import tracing


def walk_generation(
    translator: Translator,
    sources: Sequence[str],
    options: DecodeConfig | None = None,
    *,
    only: str = "*",
    demands: Sequence[Demands] | None = None,
) -> Walk:
    """Translate the sentences as one batch and keep every step, of the model and of the search.

    A blank source, which translating answers with nothing, is decoded like any other.
    ``options`` as for ``Translator.translate``; ``options.cache`` decides whether keys and values are kept;
    ``demands`` are one for each source. Raises ``InputError`` for sentences that do not fit the model and demands
    that no output can meet, ``TraceError`` for an ``only`` that matches nothing.
    """
    options = options or translator.config
    sentences = read_sentences(translator, sources, [""] * len(sources))
    model = translator.model
    device = next(model.parameters()).device
    src_ids = sentences.batch.src_ids.to(device)
    read = read_sources(sources, translator.src_tokenizer, model.config)
    limits = [output_limit(source, model.config, options) for source in read]
    # The search tells what each row of the decoder is, so that it is recorded whatever is wanted.
    needed = only if fnmatchcase("search.", only) else "*"
    with torch.no_grad(), evaluating(model), tracing(model, only=needed) as trace:
        steps = DecoderSteps.of(model, src_ids, options)
        if options.sample:
            found = sample(steps, limits, options, range(len(sources)), demands)
        else:
            found = beam_search(steps, limits, options, demands)
    targets = tuple(translator.tgt_tokenizer.to_text(candidates[0].ids) for candidates in found)
    sentences = sentences.generated(targets)
    trace.steps = [*sentences.source_steps, *trace]
    walked = made_walk(translator, sentences, trace, only=only, kind="generation", decode=options)
    trace.steps = [step for step in trace if fnmatchcase(step.address, only)]
    return walked
