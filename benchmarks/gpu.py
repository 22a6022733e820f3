"""Whether a GPU computes what the CPU does, and how fast: one command, which goes on where it stopped.

    python benchmarks/gpu.py [--minutes 8] [--data DIR] [--out DIR] [--again] [--smoke]

The stages stand in ``STAGES``, in order of worth. Each writes a file, named after the stage, the commit and the card,
after each of its cells; what is there already is not measured again, and a cell is begun only if the time left is
enough for it. So the same command, again and again, completes them. It ends with status 1 if a check failed or a
cell of ours ended in an error; ``--again`` measures those once more. Another system that is not there, or does not
run, is named and left out. Without a card it says which stages wait for one; ``--smoke`` carries out their code on
the CPU with tiny sizes.

On a machine without network that has torch, transformers, tokenizers, safetensors and numpy, wheels bring the rest.
Here, in the repository (for a Python 3.12 there):

    pip download --python-version 3.12 --only-binary=:all: --no-deps -r benchmarks/gpu_wheels.txt -d build/gpu-wheels

and there:

    pip install --no-index --no-deps --find-links build/gpu-wheels -r benchmarks/gpu_wheels.txt
    cp -r benchmarks/results/gpu/. "$OUT"; PYTHONPATH=. python benchmarks/gpu.py --minutes 8 --out "$OUT"

CTranslate2 looks for libcublas.so.12; with CUDA 13, a link of that name to libcublas.so.13 serves it.
"""

import argparse
import hashlib
import re
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import torch
from gpu_checks import parity, tests
from gpu_speed import ceilings, decoding, training
from gpu_stages import Bench, Stage, run_stage

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "gpu"
STAGES = [
    Stage("parity", 30, parity), Stage("tests", 90, tests), Stage("ceilings", 5, ceilings),
    Stage("training", 20, training), Stage("decoding", 20, decoding),
    Stage("training_float32", 20, partial(training, precisions=("float32", "tf32"))),
]  # fmt: skip


def commit() -> str:
    """The commit of the code; without git a digest of it."""
    asked = ["git", "-C", str(ROOT), "rev-parse", "--short=12", "HEAD"]
    try:
        return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        digest = hashlib.sha256()
        for path in sorted([*(ROOT / "glassformer").rglob("*.py"), *(ROOT / "benchmarks").glob("*.py")]):
            digest.update(path.read_bytes())
        return f"code-{digest.hexdigest()[:12]}"


def measure(options: argparse.Namespace, scratch: Path) -> list[str]:
    """Run the stages; returns what is wrong."""
    on_gpu = torch.cuda.is_available() and not options.smoke
    card = re.sub(r"\W+", "-", torch.cuda.get_device_name()) if on_gpu else "cpu"
    out = options.out or (scratch / "results" if options.smoke else RESULTS)
    if options.smoke:
        torch.set_num_threads(1)  # whatever else runs here, no thread waits for another
    out.mkdir(parents=True, exist_ok=True)
    bench = Bench(
        torch.device("cuda" if on_gpu else "cpu"), options.smoke, options.commit or commit(), card, out, scratch,
        time.monotonic() + 60 * options.minutes, options.data,
    )  # fmt: skip
    print(f"{card}, commit {bench.commit}, {options.minutes:g} minutes, results in {out}", flush=True)
    return [wrong for stage in STAGES for wrong in run_stage(stage, bench, again=options.again)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=8)
    parser.add_argument("--data", type=Path, help="a directory of texts, for stages that read some")
    parser.add_argument("--out", type=Path, help="default: benchmarks/results/gpu; of --smoke, nowhere")
    parser.add_argument("--commit", help="the name of the code in file names; default: git's")
    parser.add_argument("--again", action="store_true", help="measure cells that ended in an error once more")
    parser.add_argument("--smoke", action="store_true", help="carry out all code on the CPU, with tiny sizes")
    options = parser.parse_args()
    if not options.smoke and not torch.cuda.is_available():
        print(f"No GPU here. Waiting for one: {', '.join(stage.name for stage in STAGES)}. Try --smoke on the CPU.")
        return
    with tempfile.TemporaryDirectory() as scratch:
        wrong = measure(options, Path(scratch))
    for line in wrong:
        print(f"WRONG  {line}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
