"""``--smoke``: a benchmark runs its own code with its smallest sizes, in seconds, and keeps nothing."""

import argparse
import atexit
import gzip
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLACES = (ROOT / "data", ROOT.parent / "shared" / "data")
MAX_LINES = 4000


def parse_options(
    parser: argparse.ArgumentParser, smallest: str, modules: Iterable[str] = (), files: Iterable[str] = ()
) -> argparse.Namespace:
    """The options; with ``--smoke`` those of the command line ``smallest`` count, and results go to a temporary file.

    ``smallest`` may name ``{scratch}``, a directory that is removed at the end, and ``{data}``, which has the first
    lines of ``files``. Without one of these, of ``modules`` or of the programs among them (absolute paths), the
    process prints which and ends with 0.
    """
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
