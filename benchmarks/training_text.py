"""The text of the training benchmarks: four files, or the generated task phrasebook-de."""

import argparse
from pathlib import Path

_FILES = ("src", "tgt", "valid_src", "valid_tgt")


def add_files(parser: argparse.ArgumentParser) -> None:
    for name in _FILES:
        parser.add_argument(f"--{name.replace('_', '-')}", type=Path)


def data_of(options: argparse.Namespace) -> dict[str, str]:
    return {name: str(getattr(options, name)) for name in _FILES} if options.src else {"task": "phrasebook-de"}


def text_of(options: argparse.Namespace) -> str:
    return f"the pairs of {options.src.parent.name}" if options.src else "the generated task phrasebook-de"
