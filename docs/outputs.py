"""Writes what commands print into the README, so that no output of the bundled model is pasted by hand.

    python docs/outputs.py           runs each command below a mark and writes its output
    python docs/outputs.py --check   writes nothing; ends with 1 and names each block that differs

A mark is ``<!-- output -->`` or ``<!-- output: REGEX -->`` before a ``console`` block that begins with a command;
with a regular expression, only the lines that it finds are shown.
"""

import re
import shlex
import sys
from pathlib import Path

from typer.testing import CliRunner

from glassformer.cli.main import app

README = Path(__file__).resolve().parents[1] / "README.md"
_BLOCK = re.compile(
    r"(<!-- output(?:: (?P<lines>.*?))? -->\n```console\n\$ glassformer (?P<command>[^\n]*)\n)(?P<shown>.*?)^```",
    re.M | re.S,
)
_ROUNDING = re.compile(r"\d\.\d+e[-+]\d+|\(\d+ bit for bit\)|\d\.\d{3}")  # the last digits depend on the processor


def output(command: str, lines: str | None) -> str:
    """What the command prints in 100 columns, without colours: all of it, or the lines that ``lines`` finds."""
    done = CliRunner().invoke(app, shlex.split(command), env={"COLUMNS": "100", "TERM": "dumb"})
    if done.exit_code:
        raise SystemExit(f"glassformer {command}: ended with {done.exit_code}: {done.output}")
    shown = [line.rstrip() for line in done.stdout.strip("\n").splitlines()]
    return "".join(f"{line}\n" for line in shown if lines is None or re.search(lines, line))


def renew(text: str) -> str:
    """The page with each marked block as the command prints it now."""
    return _BLOCK.sub(lambda block: f"{block[1]}{output(block['command'], block['lines'])}```", text)


def same(one: str, other: str) -> bool:
    """Equal but for digits that depend on the processor's order of sums."""
    return _ROUNDING.sub("#", one) == _ROUNDING.sub("#", other)


def main() -> int:
    old = README.read_text(encoding="utf-8")
    new = renew(old)
    if "--check" not in sys.argv:
        README.write_text(new, encoding="utf-8", newline="\n")
        return 0
    differs = not same(old, new)
    if differs:
        print("README.md: an output is not what the command prints; run `python docs/outputs.py`.", file=sys.stderr)
    return int(differs)


if __name__ == "__main__":
    sys.exit(main())
