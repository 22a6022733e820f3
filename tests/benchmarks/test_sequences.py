"""The page about words shows what the benchmark measured; its cells are the published ones."""

import json
import runpy
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
BENCHMARK = runpy.run_path(str(ROOT / "benchmarks" / "sequences.py"))


def test_the_table_of_the_page_is_what_was_measured() -> None:
    kept = json.loads((ROOT / "benchmarks" / "results" / "sequences.json").read_text("utf-8"))
    assert kept["summary"] == BENCHMARK["summarize"](kept["results"], kept["ensembles"])
    assert "\n".join(BENCHMARK["table"](kept["summary"])) in (ROOT / "docs" / "sequences.md").read_text("utf-8")


def test_a_row_has_the_mean_and_the_spread_of_its_seeds() -> None:
    both = [
        {"task": "low", "language": "ady", "seed": seed, "word_error_rate": rate, "minutes": 2.0}
        for seed, rate in ((1, 20.0), (2, 25.0))
    ]
    together = [{"task": "low", "language": "ady", "models": 2, "word_error_rate": 18.0}]
    (row,) = BENCHMARK["summarize"](both, together)
    assert (row["mean"], row["spread"], row["ensemble"], row["published"]) == (22.5, 5.0, 18.0, 22)
    assert BENCHMARK["table"]([row])[-1] == "| low | ady | 2 | WER 22.5 % | 5.0 | 18.0 | 22.0 % | 2.0 |"
