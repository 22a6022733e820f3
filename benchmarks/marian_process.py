"""Marian beside the other systems of the benchmarks: ``pip install pymarian`` (604 MB).

Its program makes its own batches of the same pairs, whose tokens it reads as words between spaces. In turns with
others it is stopped by SIGSTOP and goes on with SIGCONT.
"""

import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path

from glassformer.interop.marian.weights import SIZES
from glassformer.settings import ModelConfig
from glassformer.text.corpus.batches import Batch
from glassformer.text.corpus.workers import available_cores

_UPDATE = re.compile(r"Up\. [\d,]+ : Sen\. ([\d,]+) : Cost ")
_IN_ORDER = "--shuffle none --maxi-batch-sort none --learn-rate 0.0001 --disp-freq 1u"
_COPIES = 20  # of the text, so that no epoch ends
_VALID = re.compile(r"\[valid\] .* Up\. ([\d,]+) : ce-mean-words : ([\d.]+)")


def as_words(rows: Iterable[Iterable[int]], eos_id: int = 2) -> Iterator[str]:
    """Each row of ids as a line of words, without control tokens."""
    return (" ".join(f"t{token}" for token in ids if token > eos_id) + "\n" for ids in rows)


def write_vocabulary(path: Path, size: int, eos_id: int = 2) -> None:
    """The vocabulary of these words, with as many entries as ``size`` without <pad> and <s>."""
    names = ["</s>", "<unk>", *(f"t{token}" for token in range(eos_id + 2, size))]
    path.write_text("".join(f'"{name}": {number}\n' for number, name in enumerate(names)), encoding="utf-8")


def model_options(config: ModelConfig) -> list[str]:
    """The model of a config whose matrices are all tied, norm after each sublayer."""
    sizes = [word for ours, name in SIZES.items() for word in (f"--{name}", str(getattr(config, ours)))]
    rest = f"--transformer-dropout {config.dropout} --transformer-ffn-activation relu --tied-embeddings-all"
    return ["--type", "transformer", *sizes, *rest.split()]


def _number(text: str) -> int:
    return int(text.replace(",", ""))


class MarianTraining:
    """``pymarian train`` in a process of its own; what it says goes to a file."""

    def __init__(self, config: ModelConfig, place: Path, *options: str) -> None:
        """``place`` holds train.src, train.trg and words.yml."""
        texts, words = [str(place / f"train.{side}") for side in ("src", "trg")], str(place / "words.yml")
        fixed = (
            "--label-smoothing 0.1 --cost-type ce-mean-words --optimizer-params 0.9 0.98 1e-9 --clip-norm 0 --seed 1 "
            f"--sync-sgd --cpu-threads {available_cores()} -w 1000 --mini-batch-round-up=false --shuffle-in-ram "
            "--after 0e --max-length 256"
        )
        command = [
            sys.executable, "-m", "pymarian", "train", *model_options(config), *fixed.split(), *options,
            "-t", *texts, "--vocabs", words, words, "-m", str(place / "model.npz"),
        ]  # fmt: skip
        self._log = place / "log"
        with self._log.open("w") as log:
            self._process = subprocess.Popen(command, stderr=log, stdout=subprocess.DEVNULL)
        self.pid = self._process.pid

    def said(self) -> list[str]:
        """All lines so far; ends this process if Marian has ended."""
        lines = self._log.read_text(encoding="utf-8").split("\n")[:-1]
        if self._process.poll() is not None:
            raise SystemExit("\n".join(["Marian has ended:", *lines[-20:]]))
        return lines

    def pause(self) -> None:
        """Stop it, until ``go_on``."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it compute again."""
        self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()


class MarianTurns:
    """The updates of Marian in ``training.py``, with about as many tokens, in the order of ``batches``."""

    def __init__(self, config: ModelConfig, batches: Sequence[Batch]) -> None:
        self._place = Path(tempfile.mkdtemp(prefix="marian-"))
        for side, rows in (("src", "src_ids"), ("trg", "tgt_out_ids")):
            lines = [line for batch in batches for line in as_words(getattr(batch, rows).tolist())]
            (self._place / f"train.{side}").write_text("".join(lines * _COPIES), encoding="utf-8")
        lengths = [int(length) for batch in batches for length in (batch.tgt_out_ids != 0).sum(1)]
        self._tokens = [0, *accumulate(lengths * _COPIES)]
        write_vocabulary(self._place / "words.yml", config.src_vocab)
        words = str(sum(int((batch.src_ids != 0).sum()) for batch in batches) // len(batches))
        self._training = MarianTraining(config, self._place, "--mini-batch-words", words, *_IN_ORDER.split())
        self.pid = self._training.pid
        self._done = 0

    def __call__(self, updates: int) -> int:
        """Make at least as many updates; returns their target tokens."""
        before = self._done
        self._training.go_on()
        while len(self._updates()) < before + updates:
            time.sleep(0.02)
        self._training.pause()
        sentences = self._updates()
        self._done = len(sentences)
        return self._tokens[sentences[-1]] - self._tokens[sentences[before - 1] if before else 0]

    def _updates(self) -> list[int]:
        """How many sentences have been read after each."""
        return [_number(found[1]) for line in self._training.said() if (found := _UPDATE.search(line))]

    def close(self) -> None:
        """End it."""
        self._training.close()
        shutil.rmtree(self._place)


def curve_of(training: MarianTraining, minutes: float) -> list[tuple[float, int, float]]:
    """Seconds of training alone, updates and validation loss, until the time is up."""
    curve: list[tuple[float, int, float]] = []
    spent, since, read = 0.0, time.perf_counter(), 0
    while spent < 60 * minutes:
        time.sleep(0.02)
        lines = training.said()
        for line in lines[read:]:
            if "Training started" in line:
                since = time.perf_counter()
            elif _UPDATE.search(line):  # a validation follows
                spent += time.perf_counter() - since
            elif found := _VALID.search(line):
                since = time.perf_counter()
                curve.append((spent, _number(found[1]), float(found[2])))
        read = len(lines)
    training.close()
    return curve
