"""One sentence from the shell: what a whole process takes, by each engine, and by Hugging Face and CTranslate2 alone.

Beside it stand the help, a trace and an evaluation of the same sentence, and a first use, which exports and compares.

    python benchmarks/startup.py [--run DIR] [--rounds 11] [--json FILE]

Each process is started anew, loads the model, translates one sentence with beam search in one thread, prints it, and
ends. The processes take turns, round after round. Measured are the processor time of each (user and system), which
other programs on the machine hardly change, its time on the clock, which they do, and the most memory that it had
resident. The peers run the smallest program that does it, of their own model, which ``export`` wrote before; the
engine's own export is made before, too. Without --run it is the bundled model.
"""

import json
import os
import subprocess
import sys
import tempfile
from fnmatch import fnmatchcase
from importlib.metadata import version
from pathlib import Path
from typing import Any

from machine import machine, ratio, spread
from smoke import new_parser, parse_options, write_json

from glassformer.bundled import BUNDLED
from glassformer.interop.ctranslate2 import export_ctranslate2
from glassformer.interop.transformers_export import export_transformers
from glassformer.run_directory import load_run

TEXT = "I have no idea where they went."
MEASURES = ("processor_s", "clock_s", "memory_mb")
AUTO, FIRST = "glassformer", "glassformer, first use"
TORCH, ENGINE = "glassformer, torch", "glassformer, ctranslate2"

HUGGING_FACE = """
import sys, torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer
torch.set_num_threads(1)
tokenizer, model = AutoTokenizer.from_pretrained(sys.argv[1]), AutoModelForSeq2SeqLM.from_pretrained(sys.argv[1])
ids = tokenizer(sys.argv[2], return_tensors="pt", return_token_type_ids=False)
with torch.inference_mode():
    print(tokenizer.decode(model.generate(**ids)[0], skip_special_tokens=True))
"""
CTRANSLATE2 = """
import sys, ctranslate2
from tokenizers import Tokenizer
translator = ctranslate2.Translator(sys.argv[1], compute_type=sys.argv[3], inter_threads=1, intra_threads=1)
src, tgt = (Tokenizer.from_file(f"{sys.argv[1]}/{side}_tokenizer.json") for side in ("source", "target"))
result = translator.translate_batch([src.encode(sys.argv[2]).tokens], beam_size=int(sys.argv[4]))[0]
print(tgt.decode([tgt.token_to_id(token) for token in result.hypotheses[0]]))
"""


def commands_of(run: Path, directory: Path, beam: int) -> dict[str, list[str]]:
    """Each process; what the peers load is written to ``directory``."""
    loaded = load_run(run, "cpu")
    export_transformers(loaded, directory / "hf")
    export_ctranslate2(loaded, directory / "ct2")
    program = [sys.executable, "-m", "glassformer"]
    translate = [*program, "translate", TEXT, "--run", str(run), "--workers", "1"]
    engine, torch = ([*translate, "--engine", name] for name in ("ctranslate2", "torch"))
    peer = [sys.executable, "-c", CTRANSLATE2, str(directory / "ct2"), TEXT]
    return {
        AUTO: translate,
        FIRST: translate,
        TORCH: torch,
        ENGINE: engine,
        f"{ENGINE}, int8": [*engine, "--precision", "int8"],
        "CTranslate2": [*peer, "float32", str(beam)],
        "CTranslate2, int8": [*peer, "int8", str(beam)],
        "Hugging Face generate": [sys.executable, "-c", HUGGING_FACE, str(directory / "hf"), TEXT],
        "glassformer --help": [*program, "--help"],
        "glassformer trace": [*program, "trace", TEXT, "--run", str(run)],
        "glassformer evaluate": [*program, "evaluate", str(_pairs(directory)), "--run", str(run)],
        "import torch": [sys.executable, "-c", "import torch"],
        "import ctranslate2": [sys.executable, "-c", "import ctranslate2"],
    }


def _pairs(directory: Path) -> Path:
    path = directory / "pairs.tsv"
    path.write_text(f"{TEXT}\tIch habe keine Ahnung, wohin sie gegangen sind.\n", encoding="utf-8")
    return path


# Runs a command and says what it took. It is a process of its own and small: until a new process has become another
# program it counts as large as the one that started it.
LAUNCHER = """
import json, os, subprocess, sys, time
start = time.perf_counter()
process = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
said = process.stdout.read().decode()
_, status, usage = os.wait4(process.pid, 0)
seconds = time.perf_counter() - start
process.returncode = os.waitstatus_to_exitcode(status)
print(json.dumps([process.returncode, said, [usage.ru_utime + usage.ru_stime, seconds, usage.ru_maxrss / 1024]]))
"""


def measure(name: str, command: list[str]) -> tuple[dict[str, float], str]:
    """What the process took, and what it printed; a first use finds no export."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    launcher = [sys.executable, "-S", "-c", LAUNCHER, *command]
    with tempfile.TemporaryDirectory() as cache:
        environment |= {"XDG_CACHE_HOME": cache} if name == FIRST else {}
        done = subprocess.run(launcher, stdout=subprocess.PIPE, text=True, env=environment, check=True)
    code, said, found = json.loads(done.stdout)
    if code:
        raise SystemExit(f"{' '.join(command)} ended with {code}.")
    return dict(zip(MEASURES, found, strict=True)), said.strip()


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--run", type=Path, default=BUNDLED)
    parser.add_argument("--rounds", type=int, default=11, help="default 11")
    parser.add_argument("--only", nargs="+", default=["*"], metavar="GLOB", help="the processes, by their names")
    options = parse_options(
        parser,
        "--rounds 1 --only glassformer '*torch' '*ctranslate2' CTranslate2 'Hugging*'",
        modules=["transformers", "ctranslate2"],
    )
    with tempfile.TemporaryDirectory() as scratch:
        beam = load_run(options.run, "cpu").config.decode.beam
        commands = {
            name: command
            for name, command in commands_of(options.run, Path(scratch), beam).items()
            if any(fnmatchcase(name, pattern) for pattern in options.only)
        }
        rounds: dict[str, dict[str, list[float]]] = {name: {each: [] for each in MEASURES} for name in commands}
        outputs = {
            name: measure(name, command)[1] for name, command in commands.items()
        }  # exports, and warms the disk
        for _ in range(options.rounds):
            for name, command in commands.items():
                for each, value in measure(name, command)[0].items():
                    rounds[name][each].append(value)
    result = summary(rounds, outputs, beam)
    write_json(options.json, result)


def summary(rounds: dict[str, dict[str, list[float]]], outputs: dict[str, str], beam: int) -> dict[str, Any]:
    """Medians and quartiles of each process, and the engines' ratios."""
    rows = {name: {each: spread(values) for each, values in row.items()} for name, row in rounds.items()}
    print(f"{'':32} {'processor':>10} {'clock':>8} {'memory':>9}")
    for name, row in rows.items():
        print(f"{name:32} {row['processor_s']['median']:8.2f} s {row['clock_s']['median']:6.2f} s "
              f"{row['memory_mb']['median']:6.0f} MB   {outputs[name][:40].splitlines()[:1]}")  # fmt: skip
    ratios = {
        f"{name} / {TORCH}": {each: ratio(rounds[TORCH][each], rounds[name][each]) for each in MEASURES}
        for name in (AUTO, FIRST, ENGINE, f"{ENGINE}, int8")
        if {TORCH, name} <= rounds.keys()
    }
    for name, row in ratios.items():
        print(f"{name}: " + ", ".join(f"{each} {value['median']:.2f}" for each, value in row.items()))
    versions = {name: version(name) for name in ("transformers", "ctranslate2")}
    return {"machine": machine(), "versions": versions, "text": TEXT, "beam": beam,
            "rounds": len(next(iter(rounds.values()))["clock_s"]), "processes": rows, "ratios": ratios,
            "outputs": outputs}  # fmt: skip


if __name__ == "__main__":
    main()
