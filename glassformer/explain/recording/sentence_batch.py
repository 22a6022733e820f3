"""Sentences before the model: tokens, padded ids, their steps."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from glassformer.decoding import Translation, Translator
from glassformer.decoding.batching import check_texts, read_sources
from glassformer.decoding.request import Request
from glassformer.decoding.search.steps import pad_ids
from glassformer.decoding.sentences import read_requests, read_source_sentences, text_options
from glassformer.errors import InputError
from glassformer.explain.recording.typed_text import TypedText, characters
from glassformer.settings import ModelConfig
from glassformer.text import Batch, Derivation, Tokenizer
from glassformer.text.codes.code import Parts
from glassformer.text.lines import normalize_source, without_surrogates
from glassformer.text.steps.passage import Passage
from glassformer.trace import Step

Rows = tuple[tuple[str, ...], ...]
_CPU = torch.device("cpu")


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

    texts: tuple[TypedText, ...]
    """The typed text that each sentence is from."""
    numbers: tuple[int | None, ...]
    """Each sentence's number in its text; None: it is all of the text."""

    @property
    def steps(self) -> list[Step]:
        """Steps before the model, of source and forced target."""
        src = [self._text_step("text.typed"), self._text_step("text.read"),
               *_derivation_steps("src", self.src_derivations),
               Step("text.src_tokens", ("batch", "src"), self.batch.src_ids),
               Step("text.src_ids", ("batch", "src"), self.batch.src_ids)]  # fmt: skip
        return [*src, *_derivation_steps("tgt", self.tgt_derivations or ()),
                Step("text.tgt_out_ids", ("batch", "tgt"), self.batch.tgt_out_ids),
                Step("text.tgt_in_ids", ("batch", "tgt"), self.batch.tgt_in_ids),
                Step("text.ntokens", (), torch.tensor(self.batch.target_tokens))]  # fmt: skip

    def lines(self, address: str) -> Rows | None:
        """A step of text in words: the text, its normal form, pre-tokens or spelling."""
        if address == "text.read":
            return tuple((*text.history(), source) for text, source in zip(self.texts, self.sources, strict=True))
        if address in self.words:
            return tuple((text,) for text in self.words[address])
        side, _, name = address.removeprefix("text.").partition("_")
        derivations = self.src_derivations if side == "src" else self.tgt_derivations
        if not address.startswith("text.") or name not in _SHOWN or not derivations:
            return None
        return tuple(tuple(_SHOWN[name][0](derivation)) for derivation in derivations)

    @cached_property
    def words(self) -> dict[str, list[str]]:
        """The steps that are texts, a text for each sentence."""
        return {
            "text.typed": [text.typed for text in self.texts],
            "text.read": list(self.sources),
            "answer.sentence": [text.sentence(number) for text, number in zip(self.texts, self.numbers, strict=True)],
            "answer.printed": [text.printed for text in self.texts],
        }

    @property
    def answer_steps(self) -> list[Step]:
        """Steps behind the model: each sentence's answer, and what is printed; none of a forced target."""
        if any(text.answers is None for text in self.texts):
            return []
        return [self._text_step("answer.sentence"), self._text_step("answer.printed")]

    def _text_step(self, address: str) -> Step:
        return Step(address, ("batch", "character"), characters(self.words[address]))

    def derived_texts(self) -> dict[str, Tensor]:
        """What the steps of the typed texts must be, from the texts, the tokens of the outputs, and the way back."""
        rows = list(zip(self.texts, self.numbers, self.sources, self.targets, strict=True))
        found = {
            "text.read": [text.check_read(number, source) for text, number, source, _ in rows],
            "answer.sentence": [text.check_sentence(number, source, target) for text, number, source, target in rows],
            "answer.printed": [text.restore() for text in self.texts],
        }
        return {address: characters(texts) for address, texts in found.items()}


@dataclass(frozen=True)
class _Row:
    """A sentence of the batch: what the model reads and writes, and the text that it is from."""

    source: str
    text: TypedText
    number: int | None = None
    """Of the sentence in its text; None: all of the text as one line."""
    translation: Translation | None = None


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
    typed = list(map(without_surrogates, sources))
    if targets is None:
        rows = [row for of_text in _translate(translator, typed) for row in of_text]
    else:
        rows = [_read_line(translator, text) for text in typed]
    config = translator.model.config
    src = _encode("sources", [row.source for row in rows], translator.src_tokenizer, config)
    if targets is None:
        best = [row.translation and row.translation.hypotheses[0] for row in rows]
        tgt_out = [one.ids if one and one.ids else [config.eos_id] for one in best]
        written = [translator.tgt_tokenizer.to_text(ids).strip() for ids in tgt_out]
    else:
        written = list(map(without_surrogates, targets))
        tgt_out = _encode("targets", written, translator.tgt_tokenizer, config)
    if len(written) != len(rows):
        raise InputError(f"targets: found {len(written)}, expected one for each of the {len(rows)} sources.")
    tgt_in = [[config.bos_id, *ids[:-1]] for ids in tgt_out]
    batch = Batch(*(pad_ids(ids, config.pad_id, _CPU) for ids in (src, tgt_in, tgt_out)))
    return SentenceBatch(
        sources=tuple(row.source for row in rows),
        targets=tuple(written),
        batch=batch,
        src_tokens=token_rows(translator.src_tokenizer, batch.src_ids),
        tgt_in_tokens=token_rows(translator.tgt_tokenizer, batch.tgt_in_ids),
        tgt_out_tokens=token_rows(translator.tgt_tokenizer, batch.tgt_out_ids),
        src_derivations=tuple(translator.src_tokenizer.derive(row.source) for row in rows),
        tgt_derivations=None if targets is None else tuple(map(translator.tgt_tokenizer.derive, written)),
        vocab=tuple(translator.tgt_tokenizer.to_tokens(range(translator.tgt_tokenizer.size))),
        confidence=tuple(_confidence_of(row.translation) for row in rows),
        texts=tuple(row.text for row in rows),
        numbers=tuple(row.number for row in rows),
    )


def _read_line(translator: Translator, text: str) -> _Row:
    """A text as one line, to be forced: its codes are words."""
    options = replace(translator.config, keep_codes=False, copy_wordless=False)
    asked = text_options(options, Request(text), None, translator.plain_signs, translator.targets)
    source = " ".join(read_source_sentences(text, options, translator.plain_signs, translator.targets))
    return _Row(source, TypedText(text, Passage((text,), asked)))


def _translate(translator: Translator, texts: Sequence[str]) -> Iterator[list[_Row]]:
    """The sentences of each text, and their translations as ``translate`` makes them."""
    found = list[tuple[Parts, Translation]]()

    def keep(sentences: Sequence[Parts], results: list[Translation]) -> list[Translation]:
        found.extend(zip(sentences, results, strict=True))
        return results

    requests = list(map(Request, texts))
    printed = translator.translate_requests(requests, review=keep)
    read = read_requests(
        requests, 0, translator.config, translator.model.config, translator.tgt_tokenizer,
        plain_signs=translator.plain_signs, targets=translator.targets,
    )  # fmt: skip
    translations = dict(found)
    for one, result in zip(read, printed, strict=True):
        own = [translations[sentence.parts] for sentence in one.sentences]
        text = TypedText(one.request.source, one.passage, tuple(each.parts for each in own), result.text)
        tokens = [sentence.token for sentence in one.sentences]
        yield [
            _Row(f"{token} {each.source}".lstrip(), text, number, each)
            for number, (token, each) in enumerate(zip(tokens, own, strict=True))
        ] or [_Row(normalize_source(text.typed), text)]


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


def _confidence_of(translation: Translation | None) -> tuple[float, str | None] | None:
    if translation is None or translation.hypotheses[0].confidence is None:
        return None
    doubt = translation.doubt
    return translation.hypotheses[0].confidence, None if doubt is None else doubt.text


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
