"""What Marian writes as text: vocabularies, by line or as .spm, and settings in YAML."""

import importlib
import json
import re
from pathlib import Path
from typing import Any

from glassformer.checkpoint import read_json
from glassformer.errors import CheckpointError, ConfigError, RunError, TokenizerError
from glassformer.files import read_bounded
from glassformer.interop.transformers import order_entries
from glassformer.text.tokenizer.sentencepiece import SentencePieceModel

LARGEST_TEXT = 64 * 2**20  # bytes of a vocabulary
_LARGEST_YAML = 2**18  # characters of settings; a release has some 10,000
_YAML_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|U(00(?:0[0-9A-Fa-f]|10)[0-9A-Fa-f]{4})|(.))")
_YAML_SIGNS = dict(zip("0aveN_LP", "\0\a\v\x1b\x85\xa0\u2028\u2029", strict=True))


def read_text(path: Path) -> str:
    """A text file of limited size; ``CheckpointError`` names it."""
    try:
        return read_bounded(path, LARGEST_TEXT).decode()
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path}: cannot be read: {error}. Copy it again.") from error


def read_yaml(text: str, where: str) -> dict[str, Any]:
    """The settings in a YAML text; ``CheckpointError`` for aliases, a few lines of which could fill any memory."""
    if len(text) > _LARGEST_YAML:
        raise CheckpointError(
            f"{where}: has {len(text):,} characters, expected settings of at most {_LARGEST_YAML:,}."
        )
    try:
        yaml = importlib.import_module("yaml")
    except ImportError as error:
        raise RunError(
            f"{where}: is YAML, and pyyaml is not installed. Install it in the clone: pip install '.[import]'"
        ) from error
    try:
        aliases = [token for token in yaml.scan(text, yaml.SafeLoader) if isinstance(token, yaml.AliasToken)]
        if aliases:
            line = aliases[0].start_mark.line + 1
            raise yaml.YAMLError(f"line {line}: found the alias *{aliases[0].value}, expected none")
        values = yaml.safe_load(text)
    # The library converts a value of a named type, such as !!int x, without looking at it first.
    except (yaml.YAMLError, RecursionError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise CheckpointError(f"{where}: cannot be read as YAML: {reason:.200}.") from error
    if not isinstance(values, dict):
        raise CheckpointError(f"{where}: found {type(values).__name__}, expected settings.")
    return values


def read_entries(path: Path) -> tuple[list[str], SentencePieceModel | None]:
    """The entries of a vocabulary in the order of their ids, and the tokenizer if it is a .spm."""
    if path.suffix == ".fsv":
        raise ConfigError(f"{path}: is a vocabulary of factors, expected .spm, .yml or .json. Factors are not read.")
    if path.suffix == ".spm":
        spm = SentencePieceModel.read(path)
        return list(spm.pieces), spm
    if path.suffix == ".json":
        return order_entries(read_json(path), str(path)), None
    if path.suffix not in (".yml", ".yaml"):
        return [line.split(" ")[0] for line in read_text(path).splitlines()], None
    return read_vocabulary(path), None


def read_vocabulary(path: Path) -> list[str]:
    """The entries of a vocab.yml in the order of their ids: one ``"entry": id`` a line."""
    found: dict[str, Any] = {}
    for number, line in enumerate(read_text(path).split("\n"), 1):
        entry, colon, digits = line.rpartition(":")
        if not line.strip():
            continue
        try:
            name = entry
            if entry.startswith('"'):  # YAML has escapes that JSON does not have
                name = str(json.loads(_YAML_ESCAPE.sub(_escape_as_json, entry), strict=False))
            elif entry.startswith("'") and entry.endswith("'"):
                name = entry[1:-1].replace("''", "'")
            if not colon or name in found:
                raise ValueError("an entry is there twice" if colon else "found no colon")
            found[name] = int(digits)
        except ValueError as error:
            raise TokenizerError(f'{path}:{number}: found {line[:40]!r}, expected "entry": id ({error}).') from error
    return order_entries(found, str(path))


def _escape_as_json(escape: re.Match[str]) -> str:
    digits = escape[1] or escape[2]
    character = chr(int(digits, 16)) if digits else _YAML_SIGNS.get(escape[3])
    return escape[0] if character is None else json.dumps(character)[1:-1]
