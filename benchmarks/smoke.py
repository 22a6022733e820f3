"""The options that every benchmark has: ``--json``, where its results go, and ``--smoke``, which keeps nothing.

With ``--smoke`` a benchmark runs its own code with its smallest sizes, in seconds.
"""

import argparse
import atexit
import gzip
import json
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PLACES = (ROOT / "data", ROOT.parent / "shared" / "data")
MAX_LINES = 4000


def new_parser(description: str | None) -> argparse.ArgumentParser:
    """A parser whose help is a module's docstring as it stands."""
    return argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)


def parse_options(
    parser: argparse.ArgumentParser,
    smallest: str,
    modules: Iterable[str] = (),
    files: Iterable[str] = (),
    kept: str | None = None,
) -> argparse.Namespace:
    """The options; with ``--smoke`` those of the command line ``smallest`` count, and results go to a temporary file.

    ``smallest`` may name ``{scratch}``, a directory that is removed at the end, and ``{data}``, which has the first
    lines of ``files``. Without one of these, of ``modules`` or of the programs among them (absolute paths), the
    process prints which and ends with 0. ``kept`` is the file in ``results/`` that is written without ``--json``.
    """
    default = kept and ROOT / "benchmarks" / "results" / kept
    parser.add_argument("--json", type=Path, default=default, metavar="FILE", help="where the results are written")
    parser.add_argument("--smoke", action="store_true", help="only see that it runs: with the smallest sizes")
    words = sys.argv[1:]
    if "--smoke" in words:
        for module in modules:
            if find_spec(module) is None:
                _skip(f"{module} is not installed")
        scratch = Path(tempfile.mkdtemp(prefix="smoke-"))
        atexit.register(shutil.rmtree, scratch, ignore_errors=True)
        for name in files:
            _cut(name, scratch / "data" / name)
        given = {"scratch": scratch, "data": scratch / "data"}
        words += ["--json", str(scratch / "results.json"), *(word.format(**given) for word in shlex.split(smallest))]
    return parser.parse_args(words)


def write_json(path: Path | None, results: Any) -> None:
    """Write the results, if there is a file for them."""
    if path is not None:
        path.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _skip(reason: str) -> None:
    print(f"skipped: {reason}.")
    raise SystemExit(0)


def _cut(name: str, copy: Path) -> None:
    """Copy the first eighth of a file's lines, or 4,000 if that is fewer; a program only has to be there."""
    found = next((place / name for place in PLACES if (place / name).is_file()), None)
    if found is None:
        _skip(f"{name} is not here, nor in {' or '.join(map(str, PLACES))}")
        return
    if Path(name).is_absolute():
        return
    lines = gzip.decompress(found.read_bytes()).splitlines(keepends=True)
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.write_bytes(gzip.compress(b"".join(lines[: min(MAX_LINES, len(lines) // 8)])))
