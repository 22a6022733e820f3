"""A run as an .argosmodel, a zip for Argos Translate and LibreTranslate."""

import json
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from glassformer.errors import ConfigError
from glassformer.files import sync
from glassformer.interop.ctranslate2 import check_supported, convert
from glassformer.interop.new_directory import write_whole
from glassformer.interop.sentencepiece_export import to_sentencepiece
from glassformer.settings import language_name

if TYPE_CHECKING:
    from glassformer.model import Transformer
    from glassformer.run_directory import LoadedRun

ENDING = ".argosmodel"
_METADATA, _PIECES, _MODEL = "metadata.json", "sentencepiece.model", "model"
_POSITIONS = 1026  # Argos lets CTranslate2 cut a text at 1,024 tokens, and gives it <s> and </s>
_CODES = {"zh-Hans": "zh", "zh-Hant": "zt", "pt-BR": "pb"}  # what Argos calls them
_MADE = (1980, 1, 1, 0, 0, 0)  # of all files in it, so that one run gives one file


def is_argos(place: Path) -> bool:
    """Whether a place holds a package, or is one."""
    return place.suffix == ENDING or (place.is_dir() and any(place.glob(f"*{ENDING}")))


def export_argos(
    run: "LoadedRun", directory: Path, quantization: str | None = None, langs: str | None = None
) -> list[str]:
    """Write a package to a new ``directory``; returns how to install it."""
    check_supported(run.config.model, quantization)
    text = run.config.text if langs is None else replace(run.config.text, languages=langs)
    if text.language_pair is None:
        raise ConfigError(
            "text.languages: found none, expected the languages of the run, which a package has to say. "
            "Add --langs en-de."
        )
    source, target = text.language_pair
    pieces = to_sentencepiece(run.src_tokenizer, run.tgt_tokenizer)
    codes, names = [_CODES.get(one, one) for one in (source, target)], list(map(language_name, (source, target)))
    name = f"translate-{codes[0]}_{codes[1]}"
    metadata = {
        "package_version": "1.0", "argos_version": "1.11", "type": "translate", "from_code": codes[0],
        "from_name": names[0], "to_code": codes[1], "to_name": names[1],
    }  # fmt: skip
    readme = (
        f"# {names[0]} to {names[1]}\n\nA Transformer of glassformer, written by `glassformer export --to argos`.\n"
    )
    with write_whole(directory, "--out") as temporary:
        folder = temporary / name
        folder.mkdir()
        convert(
            _with_positions(run.model), (pieces.source, pieces.target), folder / _MODEL, quantization=quantization,
            source_rows=pieces.source_ids,
        )  # fmt: skip
        (folder / _PIECES).write_bytes(pieces.data)
        (folder / _METADATA).write_text(json.dumps(metadata, indent=1), encoding="utf-8")
        (folder / "README.md").write_text(readme, encoding="utf-8")
        _zip(folder, temporary / (name + ENDING))
    install = f"from argostranslate.package import install_from_path as i; i('{directory / (name + ENDING)}')"
    notes = [f'install it: python -c "{install}"']
    if run.config.model.positions == "learned" and run.config.model.max_length < _POSITIONS:
        notes.append(
            f"The model has learned {run.config.model.max_length} positions: Argos ends with an error for a longer "
            "sentence, where we cut it."
        )
    return notes


def _with_positions(model: "Transformer") -> "Transformer":
    """The model with computed positions for the longest text of Argos."""
    from glassformer.model import Transformer

    if model.config.positions == "learned" or model.config.max_length >= _POSITIONS:
        return model
    longer = Transformer.without_values(replace(model.config, max_length=_POSITIONS), "cpu")
    longer.load_state_dict(model.state_dict())
    return longer.eval()


def _zip(folder: Path, path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(each for each in folder.rglob("*") if each.is_file()):
            member = zipfile.ZipInfo(file.relative_to(folder.parent).as_posix(), _MADE)
            member.compress_type, member.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            with file.open("rb") as source, archive.open(member, "w", force_zip64=True) as stream:
                shutil.copyfileobj(source, stream)
    shutil.rmtree(folder)
    sync(path)
