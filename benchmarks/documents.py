"""Processor seconds and memory to fill a large file of each format, with a translation that takes no time.

    python benchmarks/documents.py [--segments 200000] [--limit 600] [--only NAME ...] [--name now] [--json FILE]

So all is measured that stands beside the model: reading, finding the segments, taking out their codes (tags and
placeholders: each text has one or two), putting them back where the attention says, checking, the journal of what is
done, and writing the file. The words of a translation are those of its text backwards, each under its own; what it
takes to make it, as a model would, does not count. Each file is filled in a process of its own, one with a quarter of
the segments before: ``exponent`` is the growth between the two, 1 if the time is proportional. What exceeds
``--limit`` seconds is stopped, and so noted. Then a glossary with a tenth as many terms as there are segments, and a
memory with half as many pairs, are asked for texts of random words; what a text takes must hardly grow. Results of
other names stay.
"""

import json
import math
import multiprocessing
import re
import resource
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Any

import torch
from large_files import LARGE_FILES
from machine import machine
from smoke import new_parser, parse_options, write_json

from glassformer import Translator
from glassformer.decoding import Hypothesis, Translation
from glassformer.decoding.batching import ModelInput
from glassformer.decoding.sentence_translator import SentenceTranslator
from glassformer.documents import FileTranslator, Glossary, Memory
from glassformer.documents.glossary import Term
from glassformer.text.corpus.corpus import Pair
from glassformer.text.formats import FORMATS, FormatOptions
from glassformer.text.tokenizer.tokenizer import EOS_ID

LOOKED_UP = {"glossary": 0.1, "memory": 0.5}  # how many entries for each segment
TEXTS = 1000


class Backwards(SentenceTranslator):
    """In the place of a model: writes each word backwards, but not names and numbers, with exact attention."""

    def __init__(self, bundled: Translator) -> None:
        tokenizers = bundled.src_tokenizer, bundled.tgt_tokenizer
        super().__init__(bundled._sentences.engine, tokenizers, bundled.confidence)
        self.src_tokenizer, self.tgt_tokenizer = tokenizers
        self.seconds = 0.0

    def _search(
        self, inputs: Sequence[ModelInput], options: object, attention: bool, **_: object
    ) -> list[Translation]:
        start = time.process_time()
        found = [self._translate(one.source.text, attention=attention) for one in inputs]
        self.seconds += time.process_time() - start
        return found

    def _translate(self, text: str, *, attention: bool) -> Translation:
        output = _WORD.sub(lambda word: word[0][::-1], text)
        (src, src_words), (tgt, tgt_words) = (
            tokenizer.word_starts_batch([each])[0]
            for tokenizer, each in ((self.src_tokenizer, text), (self.tgt_tokenizer, output))
        )
        weights = torch.zeros(1, 1, len(tgt) + 1, len(src) + 1) if attention else None
        if weights is not None:
            first = {word: place for place, word in reversed(list(enumerate(accumulate(src_words))))}
            for row, word in enumerate(accumulate(tgt_words)):
                weights[0, 0, row, first[word]] = 1
            weights[0, 0, -1, -1] = 1
        src_tokens, tokens = (
            self.src_tokenizer.to_tokens([*src, EOS_ID]),
            self.tgt_tokenizer.to_tokens([*tgt, EOS_ID]),
        )
        best = Hypothesis(output, tokens, [*tgt, EOS_ID], -1.0, -1.0, False, weights, confidence=0.9)
        return Translation(text, src_tokens, False, [best], "none")


_WORD = re.compile(r"\b[a-z]+\b")


def fill(name: str, segments: int, answer: Any) -> None:
    """Fill such a file in this process; send its CPU seconds, and how many MB it needs beside those of the start."""
    ending = next(one.endings[0] for one in FORMATS if one.name == name)
    translator = Translator.load(device="cpu")
    model = translator._sentences = Backwards(translator)
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, f"in{ending}")
        path.write_text(LARGE_FILES[name](segments), encoding="utf-8")
        before, start = _peak(), time.process_time()
        files = FileTranslator(translator, key="benchmark")
        report = files.translate(path, Path(scratch, f"out{ending}"), FormatOptions(language="de"))
        seconds = time.process_time() - start - model.seconds
        if report.flagged:
            raise ValueError(f"{name}: expected that all codes are kept, found {report.flagged[0]}")
        answer.send((report.segments, seconds, _peak(), _peak() - before))


def look_up(name: str, entries: int, answer: Any) -> None:
    """Make a glossary or a memory and ask it for texts; send the CPU seconds for a thousand, and its MB."""
    known, texts = random_texts(entries, 1), random_texts(TEXTS, 2)
    before = _peak()
    if name == "glossary":
        ask: Callable[[str], object] = Glossary([Term(" ".join(text.split()[:2]), ("x",)) for text in known]).terms_in
    else:
        ask = Memory(Pair(text, text) for text in known).near
    start = time.process_time()
    for text in texts:
        ask(text)
    answer.send((entries, time.process_time() - start, _peak(), _peak() - before))


def random_texts(count: int, seed: int) -> list[str]:
    """So many texts of ten words; the word of rank n is as frequent as 1 / n, as in natural text."""
    random, words = Random(seed), [f"word{rank}" for rank in range(20_000)]
    weights = list(accumulate(1 / rank for rank in range(1, len(words) + 1)))
    return [" ".join(random.choices(words, cum_weights=weights, k=10)) for _ in range(count)]


def _peak() -> float:
    """The most memory that this process has held so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(name: str, size: int, limit: int) -> dict[str, float] | None:
    """What such a process sends; None if it was stopped; ``ChildProcessError`` if it failed."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=_work, args=(name, size, limit, theirs))
    process.start()
    theirs.close()
    try:
        found, seconds, peak, added = ours.recv()
    except EOFError:
        process.join()
        if process.exitcode == -signal.SIGXCPU:
            return None
        raise ChildProcessError(f"{name}: see above") from None
    process.join()
    return {"segments": found, "cpu_seconds": seconds, "peak_mb": round(peak), "added_mb": round(added)}


def _work(name: str, size: int, limit: int, answer: Any) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))
    (look_up if name in LOOKED_UP else fill)(name, size, answer)


def measure_growth(name: str, size: int, limit: int) -> dict[str, Any]:
    """Of so many segments or entries, and how the time grew since a quarter of them."""
    quarter = measure(name, size // 4, limit)
    whole = measure(name, size, limit) if quarter else None
    if quarter is None or whole is None:
        return {"stopped_after_cpu_seconds": limit, "quarter": quarter}
    return {**whole, "exponent": round(math.log(whole["cpu_seconds"] / quarter["cpu_seconds"], 4), 2)}


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--segments", type=int, default=200_000)
    parser.add_argument("--limit", type=int, default=600, help="CPU seconds for one file")
    parser.add_argument("--only", nargs="+", choices=[*LARGE_FILES, *LOOKED_UP], help="the others stay as they were")
    parser.add_argument("--name", default="now", help="under which the results are kept")
    options = parse_options(parser, "--segments 400", kept="documents.json")
    kept = json.loads(options.json.read_text("utf-8")) if options.json.exists() else {}
    rows = kept.setdefault(options.name, {}).setdefault("formats", {})
    for name in options.only or [*LARGE_FILES, *LOOKED_UP]:
        rows[name] = measure_growth(name, round(options.segments * LOOKED_UP.get(name, 1)), options.limit)
        print(f"{name:10} {rows[name]}", flush=True)
        kept[options.name]["machine"] = machine()
        write_json(options.json, kept)


if __name__ == "__main__":
    main()
