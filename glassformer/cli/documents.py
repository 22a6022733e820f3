"""``translate --input FILE --out FILE``: a file of a translator or a program, translated in its own form."""

import glob
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from glassformer.errors import ConfigError
from glassformer.files import real_path

if TYPE_CHECKING:
    from glassformer.config import DecodeConfig
    from glassformer.decoding import Translator
    from glassformer.documents import DocumentReport, FormatOptions

# Files whose lines are no texts: they are translated as documents only.
STRUCTURED = {
    ".po", ".pot", ".tmx", ".xlf", ".xliff", ".csv", ".tsv", ".srt", ".vtt", ".html", ".htm", ".md", ".mo", ".xlsx",
    ".docx", ".odt", ".pdf",
}  # fmt: skip


def is_pattern(path: Path | None) -> bool:
    """Whether it stands for several files."""
    return path is not None and glob.has_magic(str(path)) and not path.exists()


def check_input(path: Path | None, out: Path | None, *, others: list[str]) -> None:
    """Raise ``ConfigError`` for a structured file without ``--out``, and for options that want ``--out``."""
    if is_pattern(path) and (out is None or others):
        found = "without --out" if out is None else f"with {others[0]}"
        raise ConfigError(
            f"--input {str(path)!r}: is a pattern of files, found {found}, expected --out DIR, the directory for the "
            "translations, and nothing of --glossary, --memory, --column, --into and --language."
        )
    if out is None:
        if others:
            raise ConfigError(f"{others[0]}: found without --out, expected it with a file: --input F --out G.")
        if path is not None and path.suffix.lower() in STRUCTURED:
            raise ConfigError(
                f"--input {path}: is a {path.suffix.lower()} file, whose lines are no texts, expected --out with it: "
                f"--out {path.stem}.translated{path.suffix}."
            )
        return
    if path is None:
        raise ConfigError("--out: found without --input, expected the file to translate: --input F --out G.")
    if real_path(path) == real_path(out):
        raise ConfigError(f"--out: found {out}, which is --input, expected another file. Name another --out.")


def translate_document(
    translator: "Translator",
    path: Path,
    out: Path,
    options: "DecodeConfig",
    *,
    columns: "FormatOptions",
    glossary: Path | None,
    memory: Path | None,
) -> None:
    """Translate the file and say on standard error what was done and what should be looked at."""
    from glassformer.documents import FileTranslator, Glossary, Memory
    from glassformer.text.formats.tables import describe_csv

    if path.suffix.lower() == ".csv":
        typer.echo(describe_csv(path, columns.column, columns.into), err=True)
    files = FileTranslator(
        translator,
        options,
        glossary=None if glossary is None else Glossary.read(glossary),
        memory=None if memory is None else Memory.read(memory),
        progress=_show_progress if sys.stderr.isatty() else None,
    )
    _print_report(files.translate(path, out, columns), path, out)


def _show_progress(done: int, total: int) -> None:
    sys.stderr.write(f"\r{done:,} of {total:,} texts" + ("\n" if done == total else ""))


def _print_report(report: "DocumentReport", path: Path, out: Path) -> None:
    for kind, remarks in (("note", report.notes), ("check", report.flagged)):
        for one in remarks:
            typer.echo(f"{path}:{one.line}: {kind}: {one.remark}: {one.text!r}", err=True)
    flagged = len({(remark.line, remark.source) for remark in report.flagged})
    memory = f", {report.from_memory:,} of them from the memory" if report.from_memory else ""
    these = "one that is" if flagged == 1 else f"{flagged:,} that are"
    look = f"; check the {these} named above" if flagged else ""
    texts = "1 text" if report.segments == 1 else f"{report.segments:,} texts"
    typer.echo(f"{out}: {texts} filled{memory}{look}.", err=True)
