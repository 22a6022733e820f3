"""Runs that translate together, loaded: their models, and the one vocabulary that they share.

Knows nothing of how models are made to decide together.
"""

from collections.abc import Sequence
from pathlib import Path

from glassformer.errors import RunError, TokenizerError
from glassformer.run_directory import LoadedRun, RunDirectory


def load_together(directories: Sequence[str | Path], device: str) -> list[LoadedRun]:
    """Each run, on ``device``; raises ``RunError`` for none, ``TokenizerError`` for runs of other vocabularies."""
    if not directories:
        raise RunError("run: found none, expected at least one run directory. Name one.")
    runs = [RunDirectory(Path(directory)).load(device) for directory in directories]
    for directory, run in zip(directories[1:], runs[1:], strict=True):
        _check_same_tokenizers(directories[0], runs[0], directory, run)
    return runs


def _check_same_tokenizers(first: str | Path, expected: LoadedRun, second: str | Path, found: LoadedRun) -> None:
    for side in ("src", "tgt"):
        one, other = (getattr(run, f"{side}_tokenizer") for run in (expected, found))
        if one.digest != other.digest:
            raise TokenizerError(
                f"{second}/tokenizer.{side}.json: is not the tokenizer of {first}, expected the same: runs decide "
                "together about ids, which must mean the same to all. Train them on one text with one vocabulary."
            )
