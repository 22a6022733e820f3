"""Fine-tune the bundled model on 2,000 pairs of Multi30k beside training on them from nothing, for some minutes each.

    python benchmarks/fine_tuning.py --data DIR [--minutes 5] [--pairs 2000] [--seeds 1] [--jobs 1]
                                     [--ways "from nothing" "from the bundled model"] [--json FILE]

DIR holds multi30k/{train,test_2016_flickr}.{en,de}.gz and tatoeba/en-de-large.tsv.gz, the text that the bundled model
learned from; its held-out sentences, which ``examples/bundled/pairs.py`` sets apart, are the second test set, which
shows what is forgotten. Everything runs through the command line, with one thread; the minutes are those of the
training's own processor time. The data of Multi30k is licensed for non-commercial research: weights trained on it
must not be distributed.
"""

import json
import random
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any

from machine import machine
from small_data import FILES, ROOT, corpus_of, glassformer
from smoke import new_parser, parse_options, write_json

WAYS: dict[str, list[str]] = {
    "from nothing": [],
    "from the bundled model": ["--init", "bundled"],
    "from the bundled model, half of the pairs Tatoeba's": ["--init", "bundled", "--mix", "tatoeba.tsv"],
    "from the bundled model, encoder frozen": ["--init", "bundled", "--set", "train.freeze=encoder"],
    "from the bundled model, peak rate 2e-4": ["--init", "bundled", "--set", "train.peak_rate=2e-4"],
    "from the bundled model, peak rate 1e-3": ["--init", "bundled", "--set", "train.peak_rate=1e-3"],
    "from the bundled model, peak rate 2e-3": ["--init", "bundled", "--set", "train.peak_rate=2e-3"],
}


def write_texts(data: Path, pairs: int, seeds: list[int], home: Path) -> dict[str, list[str | Path]]:
    """Write the training pairs of each seed and the test sets; returns the test sets' options."""
    pool, test = corpus_of("multi30k", data)
    for seed in seeds:
        drawn = random.Random(seed).sample(pool, pairs)
        (home / f"pairs-{seed}.tsv").write_text("".join(f"{src}\t{tgt}\n" for src, tgt in drawn), encoding="utf-8")
    for side, name in ((0, "multi30k.en"), (1, "multi30k.de")):
        (home / name).write_text("".join(row[side] + "\n" for row in test), encoding="utf-8")
    script = ROOT / "examples" / "bundled" / "pairs.py"
    subprocess.run([sys.executable, script, data / "tatoeba" / "en-de-large.tsv.gz", home / "bundled"], check=True)
    (home / "bundled" / "train.tsv").rename(home / "tatoeba.tsv")
    rows = [line.split("\t") for line in (home / "bundled" / "test.tsv").read_text("utf-8").splitlines()]
    for side, name in ((0, "tatoeba.en"), (1, "tatoeba.de")):
        (home / name).write_text("".join(row[side] + "\n" for row in rows), encoding="utf-8")
    return {
        "Multi30k": ["--src", home / "multi30k.en", "--ref", home / "multi30k.de"],
        "Tatoeba": ["--src", home / "tatoeba.en", "--ref", home / "tatoeba.de"],
    }


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--pairs", type=int, default=2000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS), help="those to compare (default all)")
    parser.add_argument("--jobs", type=int, default=1, help="trainings at the same time (default 1)")
    options = parse_options(
        parser, "--data {data} --minutes 0.03 --pairs 200 --ways 'from nothing'", files=FILES, kept="fine_tuning.json"
    )
    lock = Lock()
    results: list[dict[str, Any]] = []

    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch)
        tests = write_texts(options.data, options.pairs, options.seeds, home)

        def scores(*run: str | Path) -> dict[str, Any]:
            return {name: json.loads(glassformer("evaluate", *test, *run, "--json")) for name, test in tests.items()}

        def measure(way: str, seed: int) -> None:
            run = home / f"{way}-{seed}"
            words = [str(home / word) if word == "tatoeba.tsv" else word for word in WAYS[way]]
            limits = ["--max-minutes", str(options.minutes), "--set", f"train.seed={seed}"]
            glassformer("train", home / f"pairs-{seed}.tsv", "--run", run, *limits, *words, processor_time=True)
            result = {"way": way, "seed": seed, "test": scores("--run", run)}
            with lock:
                results.append(result)
                print(json.dumps(result), flush=True)
                write_json(options.json, {**report, "results": results})

        report = {"machine": machine(), "minutes": options.minutes, "pairs": options.pairs, "before": scores()}
        with ThreadPoolExecutor(options.jobs) as pool:
            for future in [pool.submit(measure, way, seed) for seed in options.seeds for way in options.ways]:
                future.result()


if __name__ == "__main__":
    main()
