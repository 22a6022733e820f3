"""The two sides of a comparison with another program."""

import copy
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glassformer.checkpoint import weights_of
from glassformer.decoding.batching import read_sources
from glassformer.decoding.engines.agreement import search_sources
from glassformer.decoding.engines.engine import Engine
from glassformer.decoding.engines.torch_engine import TorchEngine
from glassformer.decoding.search.outputs import Output
from glassformer.errors import ConfigError
from glassformer.explain.compare.ctranslate2_directory import CTranslate2Directory, Floats, name_failures
from glassformer.interop.ctranslate2 import check_supported, is_ctranslate2, read_arrays
from glassformer.interop.generation_config import conflicting_ids
from glassformer.interop.programs import find_program, read_model
from glassformer.model import Transformer
from glassformer.run_directory import RunDirectory, load_run
from glassformer.settings import DecodeConfig, ModelConfig
from glassformer.text.tokenizer.tokenizer import BOS_ID, CONTROL_TOKENS, Tokenizer, check_tokenizers

# Fields of ModelConfig that change no output, or that the weights show.
_NOT_COMPARED = {"dropout", "tie_embeddings", "output_bias", "attention_bias", "relative_clip"}
# Settings that only CTranslate2 has, with the value that is ours.
_OTHERS = {"add_source_bos": False, "add_source_eos": False}

Ids = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Side:
    """One of the two: how it tokenizes, scores and translates, and what it is made of."""

    name: str
    tokenizers: tuple[Tokenizer, Tokenizer]
    engine: Engine
    settings: Mapping[str, Any]
    """The settings of the model by our names, as far as they are known."""
    decode: DecodeConfig | None = None
    """The settings of its search; CTranslate2 has none, and no model."""
    model: Transformer | None = None
    starts_with: str = CONTROL_TOKENS[BOS_ID]
    """The token that a target starts with, by the program's own name."""
    directory: CTranslate2Directory | None = None
    clashes: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    """Ids that differ between Hugging Face's config.json and generation_config.json."""
    notes: Sequence[str] = ()
    """Search settings that a run lacks, a sentence each."""

    @cached_property
    def weights(self) -> Mapping[str, Tensor] | None:
        """Every weight by our name; None for CTranslate2."""
        return None if self.model is None else weights_of(self.model)

    @cached_property
    def arrays(self) -> Mapping[str, tuple[int, ...]]:
        """The shape of each array that CTranslate2 has of the model, by its name."""
        if self.directory is not None:
            return {name: array.shape for name, array in self.directory.arrays.items() if array.shape}
        return {name: array.shape for name, array in self._arrays_of_model.items()}

    def values(self, name: str) -> tuple[Floats, Floats]:
        """The numbers of one of ``arrays``, and how far each may be rounded."""
        if self.directory is not None:
            return self.directory.values(name)
        values = self._arrays_of_model[name]
        return values, np.zeros_like(values)

    @cached_property
    def _arrays_of_model(self) -> Mapping[str, Floats]:
        assert self.model is not None
        src, tgt = (tokenizer.entries() for tokenizer in self.tokenizers)
        try:
            check_supported(self.model.config)
        except ConfigError:  # no CTranslate2 directory can be its conversion
            return {}
        return read_arrays(self.model, (src, tgt))

    @property
    def can_run(self) -> bool:
        """Whether model and tokenizers have the same entries, in whatever order."""
        if self.directory is None:
            return True
        pairs = zip(self.tokenizers, self.directory.vocabularies, strict=True)
        return all(sorted(tokenizer.entries()) == sorted(known) for tokenizer, (_, known) in pairs)

    def score(self, sources: Sequence[str], targets: Ids) -> list[list[float]]:
        """The log-probability of each target id, up to the greatest length."""
        room = self.engine.config.max_length - 1  # </s> needs a position
        with self._naming_failures():
            return self.engine.score(self._source_ids(sources), [list(ids[:room]) for ids in targets])

    def search(self, texts: Sequence[str], options: DecodeConfig) -> list[list[Output]]:
        """The outputs for each text, best first."""
        with self._naming_failures():
            return search_sources(self.engine, self._source_ids(texts), options)

    def _source_ids(self, texts: Sequence[str]) -> list[list[int]]:
        return [source.ids for source in read_sources(texts, self.tokenizers[0], self.engine.config)]

    def without_control_tokens(self) -> "Side":
        """The same with no probability for <pad> and <s>, as CTranslate2 has it."""
        if self.model is None:
            return self
        return replace(self, engine=TorchEngine([_without_control_tokens(self.model)]))

    def _naming_failures(self) -> AbstractContextManager[None]:
        return nullcontext() if self.directory is None else name_failures(self.directory.place)


def open_sides(first: Path, second: Path, device: str) -> tuple[Side, Side]:
    """The models at two places, each of whatever program."""
    ours = {place: _open_model(place, device) for place in (first, second) if not is_ctranslate2(place)}
    longest = max((side.engine.config.max_length for side in ours.values()), default=ModelConfig().max_length)
    a, b = (ours[place] if place in ours else _open_ctranslate2(place, longest) for place in (first, second))
    return a, b


def _open_model(place: Path, device: str) -> Side:
    program = find_program(place)
    if program is not None:
        found = read_model(str(place), lambda _: None)
        model, tokenizers, decode = found.model(), found.tokenizers, found.config.decode
        start, notes = str(found.source["starts_with"]), found.notes
    else:
        run = load_run(place, device)
        model, tokenizers, decode = run.model, (run.src_tokenizer, run.tgt_tokenizer), run.config.decode
        start, notes = CONTROL_TOKENS[BOS_ID], ()
        if (place / "config.json").is_file():
            imported = RunDirectory(place).read_config()[1].get("imported", {})
            start = str(imported.get("starts_with", start))
    check_tokenizers(model.config, *tokenizers)
    known = {name: value for name, value in model.config.to_mapping().items() if name not in _NOT_COMPARED}
    if program is not None and program.name == "marian":
        del known["max_length"]  # Marian has no limit
    settings = {f"model.{name}": value for name, value in known.items()} | _OTHERS
    clashes = conflicting_ids(place) if program is not None and program.name == "transformers" else {}
    clashes.pop("pad_token_id", None)  # changes no output
    return Side(
        str(place), tokenizers, TorchEngine([model]), settings, decode, model, start, clashes=clashes, notes=notes
    )


def _open_ctranslate2(place: Path, longest: int) -> Side:
    """A CTranslate2 directory; ``longest`` is its limit unless its positions have one."""
    try:
        import ctranslate2  # noqa: F401  # whether it is there
    except ImportError as error:
        raise ConfigError(
            f"{place}: is a CTranslate2 directory, and ctranslate2 is not installed. Install it in the "
            "clone: pip install '.[fast]'"
        ) from error
    from glassformer.decoding.engines.ctranslate2_engine import CTranslate2Engine

    found = CTranslate2Directory.read(place)
    src, tgt = found.tokenizers
    config = ModelConfig(
        src_vocab=src.size, tgt_vocab=tgt.size, tie_embeddings="none",
        max_length=found.settings.get("model.max_length", longest),
    )  # fmt: skip
    with name_failures(place):
        engine = CTranslate2Engine(place, config, found.tokenizers, workers=1)
    return Side(str(place), found.tokenizers, engine, found.settings, starts_with=found.start, directory=found)


def _without_control_tokens(model: Transformer) -> Transformer:
    model = copy.deepcopy(model)
    linear = model.output_projection.linear
    bias = linear.weight.new_zeros(len(linear.weight)) if linear.bias is None else linear.bias.detach().clone()
    bias[[model.config.pad_id, model.config.bos_id]] = -1e4
    linear.bias = torch.nn.Parameter(bias)
    return model
