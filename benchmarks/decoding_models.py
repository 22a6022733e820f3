"""The models and sentences that ``decoding.py`` measures with. Everything is ids; no text is read or written.

``small`` is a trained run (3 + 3 layers, d_model 256), ``base`` has random weights and can write no eos, so that
every output has as many tokens as the limit says. Without a run, ``small`` is made as ``base`` is.
"""

import random
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import torch
from transformers_model import BANNED

from glassformer.interop.ctranslate2 import VOCABULARY_MAP, convert
from glassformer.interop.marian.export import MODEL, export_marian
from glassformer.interop.shortlist import Shortlist, read_shortlist
from glassformer.model import Transformer
from glassformer.run_directory import RunDirectory
from glassformer.settings import ModelConfig
from glassformer.text.lines import read_lines
from glassformer.text.tokenizer.tokenizer import CONTROL_TOKENS, Tokenizer

FORCED, LONGEST = 16, 64  # output tokens of a model that writes no eos; most of one that does
SHAPES = {
    "small": ModelConfig.small(norm="post", src_vocab=10_000, tgt_vocab=10_000, output_bias=True),
    "base": ModelConfig.base(src_vocab=10_000, tgt_vocab=10_000, output_bias=True),
}
MARIAN = {"float32": MODEL, "int8": "model.intgemm8.bin", "shortlist": "lex.s2t"}  # files of a converted model
TESTS = "test_2016_flickr"
LETTERS, DIGITS = str.maketrans("0123456789", "abcdefghij"), str.maketrans("abcdefghij", "0123456789")


class IdTokenizer:
    """Stands where a ``Translator`` has a tokenizer: its text is the ids, so that no time goes there.

    Their digits are letters, because a text without any is copied and not translated.
    """

    def __init__(self, size: int) -> None:
        self.size = size

    def to_ids(self, text: str) -> list[int]:
        """The ids that the text spells."""
        return [int(number) for number in text.translate(DIGITS).split()]

    def to_ids_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The same of each text."""
        return [self.to_ids(text) for text in texts]

    def to_text(self, ids: Iterable[int]) -> str:
        """The ids, spelt."""
        return " ".join(map(str, ids)).translate(LETTERS)

    def unknown_symbols(self, text: str) -> tuple[str, ...]:
        """None: every id has its letters."""
        return ()

    def entry(self, number: int) -> str:
        """The token of an id, as a converted model has it."""
        return str(number)

    def entries(self) -> list[str]:
        """The token of every id, in their order."""
        return [self.entry(number) for number in range(self.size)]

    def to_tokens(self, ids: Iterable[int]) -> list[str]:
        """Each id, spelt."""
        return list(map(str, ids))


def is_forced(name: str, run: Path | None) -> bool:
    """Whether outputs of this model have no eos, but a number of tokens."""
    return name == "base" or run is None


def banned_of(name: str, run: Path | None) -> list[int]:
    """Ids that an exported model may not write, apart from pad and bos."""
    return [2] if is_forced(name, run) else []


def output_limit(name: str, run: Path | None) -> int:
    """The most tokens of an output, for every system alike."""
    return FORCED if is_forced(name, run) else LONGEST


def model_of(name: str, run: Path | None) -> Transformer:
    """The same weights in every process: from the run, or from one seed."""
    if not is_forced(name, run):
        assert run is not None
        return RunDirectory(run).load("cpu").model
    return forced_model(SHAPES[name])


def forced_model(config: ModelConfig) -> Transformer:
    """Random weights, always the same ones, and a bias that forbids eos."""
    torch.manual_seed(1)
    model = Transformer(config).eval()
    with torch.no_grad():
        model.output_projection.linear.bias[config.eos_id] = BANNED
    return model


def convert_model(name: str, run: Path | None, directory: Path) -> None:
    """Write the model as CTranslate2 reads it, with ids in decimal as its tokens, if it is not there yet."""
    place = directory / f"{name}.ctranslate2"
    if not place.exists():
        model = model_of(name, run)
        src, tgt = (IdTokenizer(size).entries() for size in (model.config.src_vocab, model.config.tgt_vocab))
        convert(model, (src, tgt), place, banned=banned_of(name, run))
        shortlist = shortlist_of(run)
        if shortlist is not None:
            (place / VOCABULARY_MAP).write_text(shortlist.to_vocabulary_map((src, tgt)), encoding="utf-8")


def shortlist_of(run: Path | None) -> Shortlist | None:
    return None if run is None else read_shortlist(RunDirectory(run).load("cpu"))


def convert_to_marian(name: str, run: Path, directory: Path) -> None:
    """Write the run as Marian reads it, with ids as its words, also as int8 and with its shortlist."""
    place, loaded = directory / f"{name}.marian", RunDirectory(run).load("cpu")
    sizes = loaded.config.model.src_vocab, loaded.config.model.tgt_vocab
    words = [Tokenizer.from_words([*CONTROL_TOKENS, *(f"t{token}" for token in range(4, size))]) for size in sizes]
    export_marian(replace(loaded, src_tokenizer=words[0], tgt_tokenizer=words[1]), place)
    files = ["-f", str(place / MODEL), "-t", str(place / MARIAN["int8"])]
    subprocess.run([sys.executable, "-m", "pymarian", "convert", *files, "--gemm-type", "intgemm8"], check=True,
                   capture_output=True)  # fmt: skip
    shortlist = shortlist_of(run)
    if shortlist is not None:
        end = loaded.config.model.eos_id
        rows = [(end, token) for token in shortlist.frequent]
        rows += [(source, token) for source, targets in shortlist.candidates.items() for token in targets]
        lines = (f"{words[1].entry(token)} {words[0].entry(source)} 0.5\n" for source, token in rows)
        (place / MARIAN["shortlist"]).write_text("".join(lines), encoding="utf-8")


def sentences_of(run: Path | None, data: Path | None, count: int) -> list[list[int]]:
    """Source ids with eos: of Multi30k's test_2016 in the run's tokens, or random ones of such lengths."""
    if run is not None and data is not None:
        tokenizer, _ = RunDirectory(run).read_tokenizers()
        return [[*ids, 2] for ids in tokenizer.to_ids_batch(lines(data, "en", count))]
    draw = random.Random(1)
    lengths = [min(40, max(5, round(draw.gauss(14, 4)))) for _ in range(count)]
    return [[*(draw.randrange(4, 10_000) for _ in range(length)), 2] for length in lengths]


def lines(data: Path, language: str, count: int) -> list[str]:
    return list(islice(read_lines(data / f"{TESTS}.{language}.gz"), count))


def multiply_adds(config: ModelConfig, source: int, steps: int, beam: int) -> float:
    """Multiply-adds of one translation: source tokens through the encoder, ``steps`` times ``beam`` decoder steps.

    Keys and values of the memory are projected once; those of earlier positions are kept.
    """
    d, wide = config.d_model, config.d_ff
    encoder = source * config.n_encoder_layers * (4 * d * d + 2 * d * wide + 2 * source * d)
    memory = source * config.n_decoder_layers * 2 * d * d
    step = config.n_decoder_layers * (6 * d * d + 2 * d * wide + 2 * source * d) + d * config.tgt_vocab
    past = config.n_decoder_layers * 2 * d * steps * (steps + 1) / 2
    return encoder + memory + beam * (steps * step + past)
