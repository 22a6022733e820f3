"""Mistakes that people really make, and what each is told: what is wrong, what was found, what was expected, what to do.

The table is run here, and printed with the real messages in docs/errors.md by docs/reference/errors.py.
"""

import ast
import io
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import jaxtyping
import pytest
import torch

import glassformer
from glassformer import DecodeConfig, ModelConfig, RunConfig, Transformer, Translator, tracing
from glassformer.checkpoint import save_checkpoint, weights_of
from glassformer.cli.main import main
from glassformer.errors import (
    ConfigError,
    GlassformerError,
    InputError,
    RunError,
    TextError,
    TokenizerError,
    TraceError,
)
from glassformer.interop.programs import export_model, read_model
from glassformer.model import DecoderCache
from glassformer.run_directory import RunDirectory
from glassformer.text import Batch, Tokenizer, collate
from glassformer.training.evaluation.evaluation import score
from glassformer.training.objective.loss import smoothed_loss
from glassformer.training.train import train


@dataclass(frozen=True)
class Mistake:
    """``written`` is run as it stands. ``where``, ``found``, ``expected`` and ``todo`` stand in its message."""

    name: str
    origin: str
    written: str
    error: type[GlassformerError]
    where: str
    found: str
    expected: str
    todo: str

    @property
    def is_command(self) -> bool:
        """Whether it is made on the command line, and not in Python."""
        return self.written.startswith("glassformer ")


# What ``written`` takes for granted, as the page says it.
SCENE = (
    "`model` has 11 ids, 2 layers on each side, `d_model` 26 and a `max_length` of 37; `src_ids` is (3, 5), two rows of "
    "it padded; `tgt_ids` is (3, 7), from bos to eos, and `tgt_in_ids` and `tgt_out_ids` are all of it but the last and "
    "the first position; `memory, memory_mask = model.encode(src_ids)`; `logits` are those of the whole batch, and "
    "`trace` holds its attention weights; `cache` holds one step of it; `translator` and `tokenizer` are the model's."
)

# fmt: off
MISTAKES: dict[str, list[Mistake]] = {
    "Ids": [
        Mistake("One sentence that is no batch", "pytorch #122959",
                "model.encode(src_ids[0])", InputError,
                "src_ids:", "found (5,)", "expected (batch, positions)", "Give one sentence as a batch of one: ids[None]."),
        Mistake("Positions first, batch second", "pytorch #122959; the default of torch.nn.Transformer",
                "model(src_ids.T, tgt_in_ids.T)", InputError,
                "src_ids, and so their memory: axis batch", "has 5 rows, tgt_in_ids has 6", "expected the same number",
                "Both have 3 columns, as (positions, batch) would: transpose both, ids.T."),
        Mistake("One-hot vectors for ids", "",
                "model.encode(torch.nn.functional.one_hot(src_ids))", InputError,
                "src_ids:", "found (3, 5, 11)", "expected (batch, positions)", "give vectors.argmax(-1)"),
        Mistake("Ids as floats, as torch.tensor([1.0]) or pandas make them", "",
                "model(src_ids, tgt_in_ids.float())", InputError,
                "tgt_in_ids:", "found torch.float32", "of torch.int64 ids", "ids.long()"),
        Mistake("Ids in lists", "",
                "model.encode([[5, 6, 2]])", InputError,
                "src_ids:", "found list", "expected a tensor (batch, positions)", "torch.tensor(rows)"),
        Mistake("Ids beyond the vocabulary", "OpenNMT-py #31, fairseq #1192",
                "model.encode(src_ids + 7)", InputError,
                "src_ids[2, 0]:", "found id 17", "expected ids from 0 to 10", "use the tokenizers that the model was made for"),
        Mistake("Padding of -100, as labels elsewhere have it", "Hugging Face's labels",
                "model(src_ids, tgt_in_ids.masked_fill(tgt_in_ids == 0, -100))", InputError,
                "tgt_in_ids[1, 5]:", "found id -100", "expected ids from 0 to 10", "pad with pad_id = 0"),
        Mistake("A text that is longer than the model", "OpenNMT-py #743",
                "model.encode(src_ids.repeat(1, 8))", InputError,
                "src_ids:", "found 40 positions", "model.max_length is 37", "Shorten the text, or build the model with a larger"),
        Mistake("Ids on another device than the model (here meta)", "",
                'model(src_ids.to("meta"), tgt_in_ids)', InputError,
                "src_ids:", "found on meta", "expected on cpu", "src_ids.to('cpu')"),
    ],
    "Memory, masks and cache": [
        Mistake("A mask of 0 and -inf, to be added", "pytorch #120488",
                'model.decode(tgt_in_ids, memory, torch.zeros(memory_mask.shape).masked_fill(~memory_mask, -torch.inf))',
                InputError, "memory_mask:", "found torch.float32", "expected torch.bool, True = may attend", "pass mask == 0"),
        Mistake("A mask of 1 and 0", "Hugging Face's attention_mask",
                "model.decode(tgt_in_ids, memory, memory_mask.long())", InputError,
                "memory_mask:", "found torch.int64", "expected torch.bool, True = may attend", "pass mask.bool()"),
        Mistake("A mask (batch, src) that is True at padding", "pytorch #39439; torch's key_padding_mask",
                "model.decode(tgt_in_ids, memory, src_ids == 0)", InputError,
                "memory_mask:", "found (3, 5)", "expected (batch 3, 1, 1, src 5), True = may attend", "mask[:, None, None, :]"),
        Mistake("The mask of sources of another length", "pytorch #122959",
                "model.decode(tgt_in_ids, memory, memory_mask[..., :4])", InputError,
                "memory_mask: axis src", "has 4", "expected (batch 3, 1, 1, src 5)", "Give the mask that encode returned with this memory."),
        Mistake("The memory of another batch", "",
                "model.decode(tgt_in_ids[:2], memory, memory_mask)", InputError,
                "memory: axis batch", "has 3 rows, tgt_in_ids has 2", "expected the same number", "Give one target row for each source row"),
        Mistake("Both that encode returns, given as the memory", "",
                "model.decode(tgt_in_ids, model.encode(src_ids), memory_mask)", InputError,
                "memory:", "found tuple", "expected a tensor (batch, src, d_model)", "memory, memory_mask = model.encode(src_ids)"),
        Mistake("The memory of another model", "",
                "model.decode(tgt_in_ids, memory[..., :16], memory_mask)", InputError,
                "memory:", "found (3, 5, 16)", "expected (batch, src, d_model = 26)", "Give the memory that encode of this very model returned."),
        Mistake("A switch for the cache", "Hugging Face's use_cache=True",
                "model.decode(tgt_in_ids, memory, memory_mask, True)", InputError,
                "cache:", "found bool", "expected a DecoderCache", "cache = model.new_cache()"),
        Mistake("A cache that has not followed its rows", "",
                "model.decode(tgt_in_ids[:2, 1:2], memory[:2], memory_mask[:2], cache)", InputError,
                "cache: axis batch", "has 3 rows, tgt_in_ids has 2", "expected the same number", "reorder cache, memory and mask together"),
        Mistake("A cache that was begun with other sources", "",
                "model.decode(tgt_in_ids, memory[:, :4], memory_mask[..., :4], cache)", InputError,
                "cache:", "holds 5 source positions, memory has 4", "expected the same number", "begin each batch with model.new_cache()"),
        Mistake("The cache of another model", "",
                "model.decode(tgt_in_ids, memory, memory_mask, DecoderCache(6))", InputError,
                "cache:", "found 6 layers", "expected 2 with self_attention, as the decoder has", "Make it with this model's new_cache()."),
    ],
    "Batches and loss": [
        Mistake("A target that is not shifted", "attention-is-all-you-need-pytorch #19",
                "check_batch(model.config, src_ids, tgt_out_ids, tgt_out_ids)", InputError,
                "tgt_in_ids:", "found the same ids as in tgt_out_ids", "expected them one position later", "pass tgt[:, :-1] and tgt[:, 1:]"),
        Mistake("The two halves of a target, in different orders", "",
                "check_batch(model.config, src_ids, tgt_in_ids.roll(-1, 0), tgt_out_ids)", InputError,
                "tgt_in_ids[0, 1]:", "found id 9", "expected id 3 of tgt_out_ids[0, 0]", "pass tgt[:, :-1] and tgt[:, 1:]"),
        Mistake("Positions first, batch second, and as many of both sides", "pytorch #122959",
                "check_batch(model.config, src_ids.T, tgt_in_ids.T, tgt_out_ids.T)", InputError,
                "tgt_in_ids:", "found bos_id = 1 along the first row", "expected it along the first column", "Transpose all ids: ids.T."),
        Mistake("The whole target, where all but its last is wanted", "",
                "check_batch(model.config, src_ids, tgt_ids, tgt_out_ids)", InputError,
                "tgt_in_ids:", "found (3, 7)", "expected (3, 6) like tgt_out_ids", "tgt[:, :-1] and tgt[:, 1:]"),
        Mistake("A target that does not begin with bos", "",
                "check_batch(model.config, src_ids, tgt_out_ids[:, :-1], tgt_out_ids[:, 1:])", InputError,
                "tgt_in_ids[0, 0]:", "found id 3", "expected bos_id = 1 first in each row", "Put it before each target"),
        Mistake("Targets that never end", "CTranslate2 #836",
                "check_batch(model.config, src_ids, tgt_in_ids[:, :3], tgt_out_ids[:, :3])", InputError,
                "tgt_out_ids:", "found no eos_id = 2 in any row", "expected one at the end of each target", "Append it"),
        Mistake("Padding with another id than the model's", "transformers #29936",
                "check_batch(model.config, src_ids, tgt_in_ids, tgt_out_ids.masked_fill(tgt_out_ids == 0, 10))", InputError,
                "tgt_out_ids[1, 4]:", "found id 10 after eos_id = 2", "expected pad_id = 0", "Pad with the model's pad_id"),
        Mistake("Padding on the left", "transformers #29936",
                "check_batch(model.config, src_ids.flip(1), tgt_in_ids, tgt_out_ids)", InputError,
                "src_ids[1, 1]:", "found padding (pad_id = 0) before a token", "expected it to the right of all tokens", "Pad on the right"),
        Mistake("Nothing but padding", "torch's cross_entropy, where it gives NaN",
                "check_batch(model.config, src_ids, tgt_in_ids, tgt_out_ids * 0)", InputError,
                "tgt_out_ids:", "found only padding (pad_id = 0)", "expected tokens to learn", "Leave empty targets out"),
        Mistake("A source that is empty", "OpenNMT-py #252",
                "check_batch(model.config, src_ids.index_fill(0, torch.tensor([2]), 0), tgt_in_ids, tgt_out_ids)", InputError,
                "src_ids[2]:", "found only padding (pad_id = 0)", "expected tokens: its target has some", "Leave pairs with an empty side out."),
        Mistake("A mask that shows everything", "transformers #29936",
                "check_batch(model.config, src_ids, tgt_in_ids, tgt_out_ids, torch.ones_like(memory_mask))", InputError,
                "memory_mask[1, 0, 0, 3]:", "found True at padding", "expected False there", "(src_ids != pad_id)[:, None, None, :]"),
        Mistake("A mask that is True where padding is", "pytorch #120488",
                "check_batch(model.config, src_ids, tgt_in_ids, tgt_out_ids, ~memory_mask)", InputError,
                "memory_mask:", "found False at all 10 tokens", "expected True = may attend", "Invert it: ~memory_mask."),
        Mistake("The whole target against the logits of all but its last", "",
                "smoothed_loss(logits, tgt_ids, pad_id=0, smoothing=0.1)", InputError,
                "logits: axis tgt", "has 6, tgt_out_ids has 7", "expected the same number", "the loss tgt[:, 1:]"),
        Mistake("Logits transposed, as torch's cross_entropy wants them", "torch.nn.functional.cross_entropy",
                "smoothed_loss(logits.transpose(1, 2), tgt_out_ids, pad_id=0, smoothing=0.1)", InputError,
                "logits: axis tgt", "has 11, tgt_out_ids has 6", "expected the same number", "as the model returned it, not transposed"),
        Mistake("Probabilities for logits", "",
                "smoothed_loss(logits.softmax(-1), tgt_out_ids, pad_id=0, smoothing=0.1)", InputError,
                "logits:", "found probabilities", "expected logits", "Leave the softmax out"),
    ],
    "Settings": [
        Mistake("A width that the heads cannot share", "",
                "ModelConfig(d_model=512, n_heads=12)", ConfigError,
                "model.d_model:", "found 512", "expected a multiple of n_heads = 12", "Change one of them, or set d_k yourself."),
        Mistake("One matrix for two vocabularies", "",
                "ModelConfig(src_vocab=8000, tgt_vocab=9000)", ConfigError,
                "model.tie_embeddings:", "src_vocab is 8000 and tgt_vocab is 9000", "'all' shares one matrix", "Use a joint vocabulary, or tie_embeddings ="),
        Mistake("A peak for a schedule that has its own", "",
                "TrainConfig(peak_rate=0.001)", ConfigError,
                "train.peak_rate:", "found 0.001 with schedule 'noam'", "expected none", "set train.schedule=inverse_sqrt"),
        Mistake("More translations than the beam holds", "",
                "DecodeConfig(beam=4, n_best=10)", ConfigError,
                "decode.n_best:", "found 10", "expected at most beam = 4", "Raise beam."),
    ],
    "Text and tokenizers": [
        Mistake("A text for a list of texts", "",
                'translator.translate("the old house")', InputError,
                "texts:", "found one str 'the old house'", "expected a list of texts", "Put it in a list."),
        Mistake("Ids for texts", "",
                "translator.translate([[5, 6, 7]])", InputError,
                "texts[0]:", "found list", "expected str", "Give plain text"),
        Mistake("Texts that can be read but once", "",
                'translator.translate(text.strip() for text in [" the old house"])', InputError,
                "texts:", "found generator", "expected a list of texts", "give it to translate_stream"),
        Mistake("Options in a dictionary", "",
                'translator.translate(["the old house"], {"beam": 5})', InputError,
                "options:", "found dict", "expected a DecodeConfig", "DecodeConfig(beam=5)"),
        Mistake("Fewer targets than sources", "",
                'translator.score(["the house", "a river"], ["das Haus"])', InputError,
                "targets:", "found 2 sources and 1 targets", "expected one for each source", "repeat their source"),
        Mistake("The tokenizer of another model", "transformers #12842",
                "Translator(model, tokenizer, other_tokenizer, DecodeConfig())", TokenizerError,
                "tgt_tokenizer:", "has 6 entries", "the model has 11", "Use the tokenizer that the model was trained with."),
        Mistake("A tokenizer that ends a text with another id", "",
                "Translator(Transformer(replace(model.config, eos_id=10)), tokenizer, tokenizer, DecodeConfig())", TokenizerError,
                "model.eos_id:", "found 10", "expected 2, which is </s>", "Leave it out of the model's settings."),
        Mistake("A tokenizer put into another run", "silnlp PR #1053",
                'Translator.load("runs/mixed")', TokenizerError,
                "runs/mixed/tokenizer.src.json:", "is not the tokenizer", "that runs/mixed/final/update-00000001 was trained with",
                "Put the original file back."),
    ],
    "Looking inside": [
        Mistake("An address that is not there", "",
                'trace["decoder.layers.0.cross_attention.weight"]', TraceError,
                "decoder.layers.0.cross_attention.weight:", "no such step", "among the 6 recorded",
                "Did you mean 'decoder.layers.0.cross_attention.weights'?"),
        Mistake("An edit of what is not there", "",
                'with tracing(model, {"encoder.layer.*.output": torch.zeros_like}): model(src_ids, tgt_in_ids)', TraceError,
                "edits:", "encoder.layer.*.output", "matched no tap that was passed", "See the addresses of a trace"),
    ],
    "Command line": [
        Mistake("No run to average", "",
                "glassformer average --last 3", RunError,
                "--run:", "found nothing", "expected the directory of a training", "Make one with `glassformer demo`"),
        Mistake("Files that are not aligned", "OpenNMT-py #1687",
                "glassformer train --src a.en --tgt short.de --run runs/a", TextError,
                "a.en has 3 lines and short.de has 2", "Line 3 of a.en has no partner", "expected the same number in both", "align the files"),
        Mistake("A file that is not UTF-8", "nmt-en-vi #6",
                "glassformer train --src a.en --tgt latin.de --run runs/a", TextError,
                "latin.de:2:6:", "found byte 0xFC", "expected UTF-8", "convert it: iconv -f WINDOWS-1252 -t UTF-8 < latin.de > utf8-latin.de"),
        Mistake("A model of no known name", "",
                "glassformer train --src a.en --tgt a.de --run runs/a --model smal", ConfigError,
                "model.name:", "there is no configuration named 'smal'", "Known: micro, tiny, small, base, big", "Did you mean 'small'?"),
        Mistake("A setting that does not exist", "",
                "glassformer train --src a.en --tgt a.de --run runs/a --set train.warm_up=4000", ConfigError,
                "train.warm_up:", "there is no such setting", "Known: seed, batch_tokens", "Did you mean 'warmup'?"),
        Mistake("A model that pads with the id of a token", "",
                "glassformer train --src a.en --tgt a.de --run runs/a --set model.pad_id=5", TokenizerError,
                "model.pad_id:", "found 5", "expected 0, which is <pad>", "Leave it out of the model's settings."),
        Mistake("A setting without its section", "",
                "glassformer train --src a.en --tgt a.de --run runs/a --set warmup=4000", ConfigError,
                "--set", "warmup=4000", "expected section.key=value", "for example train.warmup=2000"),
    ],
}
# fmt: on

EVERY = [mistake for group in MISTAKES.values() for mistake in group]


@contextmanager
def scene() -> Iterator[None]:
    """A directory with some files, and no shape checks but the model's own."""
    hinted = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        with TemporaryDirectory() as home, chdir(home):
            _write_files()
            yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", hinted)


def do(written: str) -> None:
    """Run it with all public names, a small model, a batch that fits it, and what the model makes of the batch."""
    public = {name: getattr(glassformer, name) for name in glassformer.__all__}
    others = {"torch": torch, "replace": replace}
    others |= {one.__name__: one for one in (DecoderCache, smoothed_loss, score, read_model, export_model, train)}
    exec(compile(written, "written", "exec"), {**public, **others, **_made()})


def _made() -> dict[str, Any]:
    torch.manual_seed(1)
    tokenizer, other_tokenizer = (
        Tokenizer.train("words", [text], 30) for text in ("the old house stands by a river", "das Haus")
    )
    config = ModelConfig(
        src_vocab=tokenizer.size, tgt_vocab=tokenizer.size, d_model=26, n_heads=2, d_ff=31, n_encoder_layers=2,
        n_decoder_layers=2, max_length=37, dropout=0.0,
    )  # fmt: skip
    model = Transformer(config).eval()
    src_ids = torch.tensor([[5, 6, 7, 8, 9], [9, 4, 2, 0, 0], [10, 2, 0, 0, 0]])
    tgt_ids = torch.tensor([[1, 3, 4, 5, 6, 7, 2], [1, 9, 10, 8, 2, 0, 0], [1, 9, 4, 5, 6, 7, 2]])
    tgt_in_ids, tgt_out_ids = tgt_ids[:, :-1], tgt_ids[:, 1:]
    memory, memory_mask = model.encode(src_ids)
    cache = model.new_cache()
    model.decode(tgt_in_ids[:, :1], memory, memory_mask, cache)
    with tracing(model, only="*.weights") as trace:
        logits = model(src_ids, tgt_in_ids)
    translator = Translator(model, tokenizer, tokenizer, DecodeConfig())
    _write_run(Path("runs/mixed"), model, tokenizer, other_tokenizer)
    return {
        "model": model, "tokenizer": tokenizer, "other_tokenizer": other_tokenizer, "translator": translator,
        "src_ids": src_ids, "tgt_ids": tgt_ids, "tgt_in_ids": tgt_in_ids, "tgt_out_ids": tgt_out_ids,
        "memory": memory, "memory_mask": memory_mask, "cache": cache, "logits": logits, "trace": trace,
    }  # fmt: skip


def _write_files() -> None:
    for name, text in {
        "a.en": "the house\nthe door\nthe river\n", "a.de": "das Haus\ndie Tür\nder Fluss\n", "short.de": "das Haus\ndie Tür\n",
    }.items():  # fmt: skip
        Path(name).write_text(text, encoding="utf-8")
    Path("latin.de").write_text("das Haus\ndie Tür\nder Fluss\n", encoding="latin-1")


def _write_run(path: Path, model: Transformer, tokenizer: Tokenizer, other: Tokenizer) -> None:
    """A trained run, into which another tokenizer has been put."""
    run = RunDirectory(path)
    run.create()
    run.write_config(RunConfig(model=model.config), {})
    run.write_tokenizers(other, tokenizer)
    digests = {f"{side}_tokenizer": tokenizer.digest for side in ("src", "tgt")}
    save_checkpoint(run.final, 1, {"model": weights_of(model)}, digests)


def answer(mistake: Mistake) -> str:
    """The whole message that the mistake is answered with; any other error than its own goes on."""
    with scene():
        if mistake.is_command:
            return answer_of_command(mistake.written, mistake.error)
        try:
            do(mistake.written)
        except mistake.error as error:
            return str(error)
    raise AssertionError(f"{mistake.name}: nothing was said")


def answer_of_command(written: str, error: type[GlassformerError]) -> str:
    """What stands on standard error after ``error:``; it ends with the exit code of ``error``."""
    said = io.StringIO()
    with (
        patch.object(sys, "argv", shlex.split(written)),
        redirect_stdout(io.StringIO()),
        redirect_stderr(said),
        pytest.raises(SystemExit) as ended,
    ):
        main()
    assert ended.value.code == error.exit_code
    prefix, _, message = said.getvalue().removesuffix("\n").partition(" ")
    assert prefix == "error:"
    return message


@pytest.mark.parametrize("mistake", EVERY, ids=lambda mistake: mistake.name)
def test_a_mistake_is_told_where_it_is_what_was_found_what_was_expected_and_what_to_do(mistake: Mistake) -> None:
    message = answer(mistake)
    assert "\n" not in message
    assert message.startswith(mistake.where)
    for part in (mistake.found, mistake.expected, mistake.todo):
        assert part in message


def test_the_table_is_long_enough_and_says_four_things_of_each() -> None:
    assert len(EVERY) >= 35
    assert len({mistake.written for mistake in EVERY}) == len(EVERY)
    for mistake in EVERY:
        parts = (mistake.where, mistake.found, mistake.expected, mistake.todo)
        assert all(parts), mistake.name
        assert len(set(parts)) == 4, mistake.name


WRONG_TYPES = [
    "Translator(None, tokenizer, tokenizer, DecodeConfig())",
    "Translator(model, 'a', tokenizer, DecodeConfig())",
    "Translator(model, tokenizer, tokenizer, {'beam': 2})",
    "Translator(model, tokenizer, tokenizer, DecodeConfig(), others=[None])",
    "Translator(model, tokenizer, tokenizer, DecodeConfig(), confidence=0.5)",
    "Translator(model, tokenizer, tokenizer, DecodeConfig(), languages='en-de')",
    "Translator.load(workers='2')",
    "Translator.load(workers=-1)",
    "translator.translate(['the old house'], attention=True)[0].hypotheses[0].alignment('0')",
    "translator.translate(['the old house'], attention=True)[0].hypotheses[0].alignment(0.0)",
    "translator.translate(['the old house'], attention=True)[0].hypotheses[0].hard_alignment(0, True)",
    "translator.translate(['the old house'], attention=True)[0].links(-1)",
    "trace[0]",
    "trace.select(None)",
    "trace.save(None)",
    "score(['a'], [3])",
    "score('a', 'b')",
    "read_model(3, print)",
    "export_model('run', 'marian', 3)",
    "train(None, None)",
]


@pytest.mark.parametrize("written", WRONG_TYPES)
def test_an_argument_of_a_wrong_type_is_refused_in_our_words(written: str) -> None:
    with scene(), pytest.raises(GlassformerError, match=r"found .*, expected "):
        do(written)


RIGHT = [
    "model(src_ids, tgt_in_ids)",
    "model(src_ids.int(), tgt_in_ids.int())",
    "model(torch.zeros_like(src_ids), tgt_in_ids)",
    "model.decode(tgt_in_ids, memory, torch.zeros_like(memory_mask))",
    "model.decode(tgt_in_ids, memory, memory_mask.expand(3, 1, 6, 5))",
    "model.decode(tgt_in_ids, memory, memory_mask.expand(3, 2, 1, 5))",
    "model.decode(tgt_in_ids, memory.detach(), memory_mask, model.new_cache())",
    "model.decode(tgt_in_ids[:, 1:], memory, memory_mask, cache)",
    "check_batch(model.config, src_ids, tgt_in_ids, tgt_out_ids, memory_mask)",
    "check_batch(model.config, src_ids, tgt_in_ids.masked_fill(tgt_in_ids == 2, 0), tgt_out_ids)",
    "check_batch(model.config, src_ids.int(), tgt_in_ids.int(), tgt_out_ids.int(), memory_mask & (src_ids != 5)[:, None, None])",
    "check_batch(model.config, src_ids[:1, :1], torch.tensor([[1]]), torch.tensor([[2]]))",
    "smoothed_loss(logits, tgt_out_ids.int(), pad_id=0, smoothing=0.1)",
    "smoothed_loss(logits.log_softmax(-1), tgt_out_ids, pad_id=0, smoothing=0.1)",
    "smoothed_loss(logits * 0, tgt_out_ids * 0, pad_id=0, smoothing=0.1)",
    "translator.translate(('the old house', ''))",
    "list(translator.translate_stream(line for line in ['the old house']))",
]


@pytest.mark.parametrize("written", RIGHT)
def test_what_is_right_or_rare_is_not_taken_for_a_mistake(written: str) -> None:
    with scene():
        do(written)


def test_the_trainer_holds_its_first_batch_to_the_same_rules() -> None:
    def unshifted(*pairs: Any) -> Batch:
        batch = collate(*pairs)
        return Batch(batch.src_ids, batch.tgt_out_ids, batch.tgt_out_ids)

    with scene(), patch("glassformer.training.request.data.collate", unshifted):
        for name in ("a.en", "a.de"):  # a training needs three pairs besides the validation pair
            Path(name).write_text(Path(name).read_text(encoding="utf-8") * 2, encoding="utf-8")
        said = answer_of_command("glassformer train --src a.en --tgt a.de --run runs/a", InputError)
    assert said.startswith("tgt_in_ids: found the same ids as in tgt_out_ids")


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
def test_the_checks_leave_a_compiled_decoder_one_graph_for_all_shapes(small_model: Callable[[], Transformer]) -> None:
    model = small_model()
    decode = torch.compile(model.decode, fullgraph=True, dynamic=True, backend="eager")
    with torch.no_grad(), torch.compiler.set_stance("default"):
        for batch, n_src, n_tgt in ((2, 5, 3), (3, 7, 4), (4, 11, 6)):
            memory, memory_mask = model.encode(torch.full((batch, n_src), 3))
            tgt_in_ids = torch.full((batch, n_tgt), 4)
            expected = model.decode(tgt_in_ids, memory, memory_mask)
            torch.testing.assert_close(decode(tgt_in_ids, memory, memory_mask), expected)
            torch.compiler.set_stance("fail_on_recompile")


PUBLIC_ROOMS = ("run_directory.py", "files.py", "checkpoint.py", "decoding", "documents", "text", "trace", "model",
                "explain/walk.py", "explain/recording/walk_data.py", "explain/attribution.py")  # fmt: skip


def test_messages_of_python_do_not_speak_of_options_of_the_command_line():
    """A whole command may be quoted; an option alone means nothing to who has written no command."""
    package = Path(glassformer.__file__).parent
    places = [
        found
        for room in PUBLIC_ROOMS
        for found in ([package / room] if room.endswith(".py") else sorted((package / room).rglob("*.py")))
    ]
    spoken = []
    for path in places:
        tree = ast.parse(path.read_text("utf-8"))
        docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        docs |= {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr | ast.Constant) and id(node) not in docs:
                parts = node.values if isinstance(node, ast.JoinedStr) else [node]
                text = "".join(str(part.value) for part in parts if isinstance(part, ast.Constant))
                if re.search(r"(?<![-\w])--[a-z]{2,}", text.partition("glassformer ")[0]):
                    spoken.append(f"{path.relative_to(package)}:{node.lineno}: {text}")
    assert spoken == []
