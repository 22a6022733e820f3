"""Sentences on their way into the model: tokens and padded ids, and the steps that show them. Knows no model run."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.config import ModelConfig
from glassformer.decoding import Translator
from glassformer.decoding.sources import padded, read_sources
from glassformer.errors import InputError
from glassformer.text import Batch, Tokenizer
from glassformer.trace import Step

Rows = tuple[tuple[str, ...], ...]
_CPU = torch.device("cpu")


@dataclass(frozen=True, eq=False)
class Sentences:
    """Texts, and the batch that they become; each ``Rows`` holds the token label of every entry, padding too."""

    sources: tuple[str, ...]
    targets: tuple[str, ...]
    batch: Batch
    src_tokens: Rows
    tgt_in_tokens: Rows
    tgt_out_tokens: Rows

    @property
    def steps(self) -> list[Step]:
        """The steps before the model."""
        sides = {"src": "batch src", "tgt_in": "batch tgt", "tgt_out": "batch tgt"}
        ids = {"src": self.batch.src_ids, "tgt_in": self.batch.tgt_in_ids, "tgt_out": self.batch.tgt_out_ids}
        shown = [Step(f"text.{side}_ids", tuple(axes.split()), ids[side]) for side, axes in sides.items()]
        tokens = Step("text.src_tokens", ("batch", "src"), self.batch.src_ids)
        return [tokens, *shown, Step("text.ntokens", (), torch.tensor(self.batch.target_tokens))]

    def cells(self, address: str) -> Rows | None:
        """What the entries at ``address`` stand for, when they are ids."""
        return {
            "text.src_tokens": self.src_tokens,
            "text.src_ids": self.src_tokens,
            "text.tgt_in_ids": self.tgt_in_tokens,
            "text.tgt_out_ids": self.tgt_out_tokens,
        }.get(address)


def read_sentences(translator: Translator, sources: Sequence[str], targets: Sequence[str] | None) -> Sentences:
    """The sentences as the model reads them; without ``targets`` they are translated first.

    Raises ``InputError`` when there is no sentence, not one target for each source, or one longer than the model
    takes.
    """
    if not sources:
        raise InputError("sources: found no sentence, expected at least one.")
    config = translator.model.config
    src = _encoded("sources", sources, translator.src_tokenizer, config)
    if targets is None:
        best = [translation.hypotheses[0] for translation in translator.translate(sources)]
        targets, tgt_out = [one.text for one in best], [one.ids or [config.eos_id] for one in best]
    else:
        tgt_out = _encoded("targets", targets, translator.tgt_tokenizer, config)
    if len(targets) != len(sources):
        raise InputError(f"targets: found {len(targets)}, expected one for each of the {len(sources)} sources.")
    tgt_in = [[config.bos_id, *ids[:-1]] for ids in tgt_out]
    batch = Batch(*(padded(rows, config.pad_id, _CPU) for rows in (src, tgt_in, tgt_out)))
    return Sentences(
        sources=tuple(sources),
        targets=tuple(targets),
        batch=batch,
        src_tokens=token_rows(translator.src_tokenizer, batch.src_ids),
        tgt_in_tokens=token_rows(translator.tgt_tokenizer, batch.tgt_in_ids),
        tgt_out_tokens=token_rows(translator.tgt_tokenizer, batch.tgt_out_ids),
    )


def token_rows(tokenizer: Tokenizer, ids: Tensor) -> Rows:
    """The label of each id, row by row."""
    return tuple(tuple(tokenizer.to_tokens(row)) for row in ids.tolist())


def _encoded(name: str, texts: Sequence[str], tokenizer: Tokenizer, config: ModelConfig) -> list[list[int]]:
    read = read_sources(texts, tokenizer, config)
    for index, source in enumerate(read):
        if source.truncated:
            raise InputError(
                f"{name}[{index}]: has more than the {config.max_length - 1} tokens that the model takes. Shorten it."
            )
    return [source.ids for source in read]
