"""Train ``tiny`` En-De on Multi30k for some minutes, translate test_2016_flickr, print cased BLEU and the speed.

    python benchmarks/multi30k.py --data DIR [--minutes 20] [--run DIR] [--json FILE]

DIR holds train.en.gz, train.de.gz, val.* and test_2016_flickr.* (raw text). Both steps go through the command line,
as a user would go. The data are for non-commercial research: weights trained on them are not to be distributed.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from machine import machine

# Fewer epochs than the published recipe's 85 call for less dropout than its 0.3.
DROPOUT = 0.15


def glassformer(*arguments: str | Path) -> str:
    """The standard output of one command, which must succeed."""
    command = [sys.executable, "-m", "glassformer", *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def measure(data: Path, run: Path, minutes: float) -> dict[str, Any]:
    """Train and evaluate; numbers are read from what the commands print and write."""
    files = {"--src": "train.en.gz", "--tgt": "train.de.gz", "--valid-src": "val.en.gz", "--valid-tgt": "val.de.gz"}
    places = [part for option, name in files.items() for part in (option, data / name)]
    settings = ["--model", "tiny", "--max-minutes", str(minutes), "--set", f"model.dropout={DROPOUT}"]
    printed = glassformer("train", *places, "--run", run, *settings)
    test = ["--src", data / "test_2016_flickr.en.gz", "--ref", data / "test_2016_flickr.de.gz"]
    scores = json.loads(glassformer("evaluate", *test, "--run", run, "--beam", "5", "--json"))
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    speeds = sorted(record["tokens_per_s"] for record in records if "tokens_per_s" in record)
    return {
        "minutes": minutes,
        "test_2016_flickr": scores,
        "updates": max(record["update"] for record in records),
        "target_tokens_per_s": {
            "median": speeds[len(speeds) // 2],
            "lower_quartile": speeds[len(speeds) // 4],
            "upper_quartile": speeds[3 * len(speeds) // 4],
        },
        "padding_percent": float(re.findall(r"([\d.]+) % padding", printed)[0]),
        "machine": machine(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--run", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        result = measure(options.data, options.run or Path(scratch) / "run", options.minutes)
    text = json.dumps(result, indent=1)
    print(text)
    if options.json:
        options.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
