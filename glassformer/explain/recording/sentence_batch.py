"""Sentences before the model: tokens, padded ids, their steps."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from glassformer.decoding import Translation, Translator
from glassformer.decoding.batching import check_texts, read_sources
from glassformer.decoding.request import Request
from glassformer.decoding.search.steps import pad_ids
from glassformer.decoding.sentences import read_source_sentences, text_options
from glassformer.errors import InputError
from glassformer.settings import ModelConfig
from glassformer.text import Batch, Derivation, Tokenizer
from glassformer.text.codes.code import join_parts
from glassformer.text.lines import has_letter, normalize_source, without_surrogates
from glassformer.text.steps.passage import Passage
from glassformer.text.steps.signs import WRITTEN, plain_signs, read_signs
from glassformer.text.steps.step import TextOptions
from glassformer.trace import Step

Rows = tuple[tuple[str, ...], ...]
_CPU = torch.device("cpu")
_ALL_SIGNS = TextOptions(plain_signs=plain_signs("-.'\""))


@dataclass(frozen=True, eq=False)
class SentenceBatch:
    """Texts and their batch; tokens include padding, ``vocab`` is the target's."""

    sources: tuple[str, ...]
    targets: tuple[str, ...]
    batch: Batch
    src_tokens: Rows
    tgt_in_tokens: Rows
    tgt_out_tokens: Rows
    src_derivations: tuple[Derivation, ...]
    tgt_derivations: tuple[Derivation, ...] | None
    vocab: tuple[str, ...]
    confidence: tuple[tuple[float, str | None] | None, ...]
    """Confidence and doubt in words, for each of the model's targets."""

    @property
    def steps(self) -> list[Step]:
        """Steps before the model, of source and forced target."""
        src = [*_derivation_steps("src", self.src_derivations),
               Step("text.src_tokens", ("batch", "src"), self.batch.src_ids),
               Step("text.src_ids", ("batch", "src"), self.batch.src_ids)]  # fmt: skip
        return [*src, *_derivation_steps("tgt", self.tgt_derivations or ()),
                Step("text.tgt_out_ids", ("batch", "tgt"), self.batch.tgt_out_ids),
                Step("text.tgt_in_ids", ("batch", "tgt"), self.batch.tgt_in_ids),
                Step("text.ntokens", (), torch.tensor(self.batch.target_tokens))]  # fmt: skip

    def lines(self, address: str) -> Rows | None:
        """What ``address`` counts: normal form, pre-tokens or spelling."""
        side, _, name = address.removeprefix("text.").partition("_")
        derivations = self.src_derivations if side == "src" else self.tgt_derivations
        if not address.startswith("text.") or name not in _SHOWN or not derivations:
            return None
        return tuple(tuple(_SHOWN[name][0](derivation)) for derivation in derivations)


def read_sentences(translator: Translator, sources: Sequence[str], targets: Sequence[str] | None) -> SentenceBatch:
    """Sentences as the model reads them; without ``targets`` translated first.

    ``InputError`` for no sentences, other numbers of targets, and too long ones.
    """
    if not isinstance(translator, Translator):
        raise InputError(f"translator: found {type(translator).__name__}, expected a Translator.")
    check_texts("sources", sources)
    if targets is not None:
        check_texts("targets", targets)
    if not sources:
        raise InputError("sources: found no sentence, expected at least one.")
    options = translator.config if targets is None else replace(translator.config, keep_codes=False)
    signs = translator.plain_signs
    read = [read_source_sentences(without_surrogates(text), options, signs, translator.targets) for text in sources]
    if targets is None:  # as translate does, each sentence by itself
        sources = [one for each in read for one in (list(filter(has_letter, each)) or each)]
    else:
        sources = [" ".join(sentences) for sentences in read]
        targets = [without_surrogates(text) for text in targets]
    config = translator.model.config
    src = _encode("sources", sources, translator.src_tokenizer, config)
    forced = targets is not None
    confidence: list[tuple[float, str | None] | None] = [None] * len(sources)
    if targets is None:
        translations = translator.translate(sources)
        best = [translation.hypotheses[0] for translation in translations]
        confidence = list(map(_confidence_of, translations))
        targets, tgt_out = [one.text for one in best], [one.ids or [config.eos_id] for one in best]
    else:
        tgt_out = _encode("targets", targets, translator.tgt_tokenizer, config)
    if len(targets) != len(sources):
        raise InputError(f"targets: found {len(targets)}, expected one for each of the {len(sources)} sources.")
    tgt_in = [[config.bos_id, *ids[:-1]] for ids in tgt_out]
    batch = Batch(*(pad_ids(rows, config.pad_id, _CPU) for rows in (src, tgt_in, tgt_out)))
    return SentenceBatch(
        sources=tuple(sources),
        targets=tuple(targets),
        batch=batch,
        src_tokens=token_rows(translator.src_tokenizer, batch.src_ids),
        tgt_in_tokens=token_rows(translator.tgt_tokenizer, batch.tgt_in_ids),
        tgt_out_tokens=token_rows(translator.tgt_tokenizer, batch.tgt_out_ids),
        src_derivations=tuple(map(translator.src_tokenizer.derive, sources)),
        tgt_derivations=tuple(map(translator.tgt_tokenizer.derive, targets)) if forced else None,
        vocab=tuple(translator.tgt_tokenizer.to_tokens(range(translator.tgt_tokenizer.size))),
        confidence=tuple(confidence),
    )


def check_reading(translator: Translator, text: str) -> str:
    """What the way back makes of the sentences that are read, in the place of answers: the text, if all is well.

    Each step undoes what it has done; only the kind of white space and what is not read (``signs``) do not count.
    Gives the empty text if it is undone, else what came out.
    """
    options = text_options(translator.config, Request(text), plain_signs=translator.plain_signs)
    passage = Passage((text,), options)
    restored = join_parts(passage.restore(passage.texts)[0])
    signs = all(restored.count(sign) == text.count(sign) or plain in text for sign, plain in WRITTEN.items())
    return "" if signs and _simplify(restored) == _simplify(text) else restored


def _simplify(text: str) -> str:
    (read,) = Passage((text,), _ALL_SIGNS, (read_signs,)).texts
    return " ".join(normalize_source(join_parts(read)).split())


def text_of_ids(translator: Translator, numbers: str) -> str:
    """The source with these ids, such as "40 3047 481"; else ``InputError``."""
    tokenizer, config = translator.src_tokenizer, translator.model.config
    parts = numbers.replace(",", " ").split()
    wrong = next((part for part in parts if not part.isdecimal() or int(part) >= tokenizer.size), None)
    if not parts or wrong is not None:
        raise InputError(
            f"--from-ids: found {numbers if wrong is None else wrong!r}, expected numbers from 0 to "
            f"{tokenizer.size - 1}, the entries of the vocabulary, with spaces between them."
        )
    ids = [int(part) for part in parts]
    ids = ids[:-1] if ids[-1] == config.eos_id else ids
    text = tokenizer.to_text(ids)
    [read] = read_sources(
        [" ".join(read_source_sentences(text, translator.config, translator.plain_signs, translator.targets))],
        tokenizer,
        config,
    )
    if read.ids != [*ids, config.eos_id]:
        raise InputError(
            f"--from-ids: found {numbers!r}, which is the text {text!r}, but the model reads that as "
            f"'{' '.join(map(str, read.ids))}'. Give those ids, or the text."
        )
    return text


def _confidence_of(translation: Translation) -> tuple[float, str | None] | None:
    chance, doubt = translation.hypotheses[0].confidence, translation.doubt
    return None if chance is None else (chance, None if doubt is None else doubt.text)


# A text's step in lines, and what its number counts.
_SHOWN: dict[str, tuple[Callable[[Derivation], list[str]], Callable[[Derivation], int]]] = {
    "normalised": (lambda one: [one.normalised], lambda one: len(one.normalised)),
    "pre_tokens": (lambda one: [part.text for part in one.pre_tokens], lambda one: len(one.pre_tokens)),
    "spelling": (
        lambda one: [line for part in one.pre_tokens for line in (str(part), *(f"  {step}" for step in part.steps))],
        lambda one: sum(len(part.steps) for part in one.pre_tokens),
    ),
}


def _derivation_steps(side: str, derivations: Sequence[Derivation]) -> list[Step]:
    return [
        Step(f"text.{side}_{name}", ("batch",), torch.tensor([count(one) for one in derivations]))
        for name, (_, count) in _SHOWN.items()
        if derivations
    ]


def token_rows(tokenizer: Tokenizer, ids: Tensor) -> Rows:
    """Each id's token, row by row."""
    return tuple(tuple(tokenizer.to_tokens(row)) for row in ids.tolist())


def _encode(name: str, texts: Sequence[str], tokenizer: Tokenizer, config: ModelConfig) -> list[list[int]]:
    read = read_sources(texts, tokenizer, config)
    for index, source in enumerate(read):
        if source.truncated:
            raise InputError(
                f"{name}[{index}]: has more than the {config.max_length - 1} tokens that the model takes. Shorten it."
            )
    return [source.ids for source in read]
