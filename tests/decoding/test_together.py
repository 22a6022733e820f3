"""Several processes translate one input: in order, the same as one does, whatever the number of processes."""

import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from glassformer.config import DecodeConfig
from glassformer.decoding import Request, Translator, translate_together
from glassformer.world import ALONE

ROOT = Path(__file__).parents[2]
SMALL = [
    "--set", "model.d_model=26", "--set", "model.n_heads=3", "--set", "model.d_k=10", "--set", "model.d_ff=31",
    "--set", "model.n_encoder_layers=1", "--set", "model.n_decoder_layers=1", "--set", "text.tokenizer=characters",
    "--set", "train.batch_tokens=512", "--set", "train.schedule=inverse_sqrt", "--set", "train.peak_rate=5e-3",
    "--set", "train.warmup=20", "--set", "decode.max_length_b=5",
]  # fmt: skip


def glassformer(*arguments: str | Path, processes: int = 1) -> str:
    """What the command prints; one process is started without torchrun."""
    launcher = [
        "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}", "-m", "--"
    ] if processes > 1 else ["-m"]  # fmt: skip
    done = subprocess.run(
        [sys.executable, *launcher, "glassformer", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """More lines than two processes take in one round, some blank, and each of them reversed."""
    random, directory = Random(11), tmp_path_factory.mktemp("words")
    lines = ["".join(random.choices("abcdef", k=random.randint(1, 6))) for _ in range(2311)]
    lines[7] = lines[1999] = ""
    for name, turned in (("src", 1), ("tgt", -1)):
        (directory / name).write_text("".join(line[::turned] + "\n" for line in lines))
    return directory / "src", directory / "tgt"


@pytest.fixture(scope="module")
def trained(words: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("runs") / "run"
    glassformer("train", "--src", words[0], "--tgt", words[1], "--run", run, "--max-updates", "60", *SMALL)
    return run


@pytest.mark.slow
def test_one_process_alone_translates_as_ever_and_draws_by_the_place_in_the_whole_input(
    trained: Path, words: tuple[Path, Path]
) -> None:
    texts, options = words[0].read_text().splitlines()[:50], DecodeConfig(sample=True, beam=1)
    translator = Translator.load(trained, device="cpu")
    whole = [one.text for one in translator.translate_stream(texts, options)]
    requests = (Request(text) for text in texts)
    assert [one.text for one in translate_together(translator, requests, options, ALONE, chunk=7)] == whole
    assert [one.text for one in translator.translate_stream(texts[13:], options, start=13)] == whole[13:]
    assert [one.text for one in translator.translate_stream(texts[13:], options)] != whole[13:]


@pytest.mark.slow
@pytest.mark.parametrize("processes", [2, 4])
@pytest.mark.parametrize(
    "options", [["--beam", "3", "--n-best", "2"], ["--sample", "--seed", "5", "--beam", "1"]], ids=str
)
def test_a_file_is_translated_as_one_process_does(
    trained: Path, words: tuple[Path, Path], processes: int, options: list[str]
) -> None:
    arguments = ["translate", "--input", words[0], "--run", trained, "--device", "cpu", *options]
    expected, found = glassformer(*arguments), glassformer(*arguments, processes=processes)
    assert len(found.splitlines()) == 2311
    assert found == expected


@pytest.mark.slow
def test_evaluate_finds_the_same_with_two_and_four_processes(
    trained: Path, words: tuple[Path, Path], tmp_path: Path
) -> None:
    shown, written = [], []
    for processes in (1, 2, 4):
        out = tmp_path / f"{processes}.out"
        arguments = [
            "evaluate",
            "--src",
            words[0],
            "--ref",
            words[1],
            "--run",
            trained,
            "--device",
            "cpu",
            "--out",
            out,
        ]
        shown.append(glassformer(*arguments, "--beam", "2", processes=processes))
        written.append(out.read_text())
    assert len(set(shown)) == 1
    assert len(set(written)) == 1
    assert len(written[0].splitlines()) == 2311
