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


# The files whose columns and language an option may name, and endings that stand for the same form.
_READ_BY = {
    "--column": {".csv", ".tsv"}, "--into": {".csv", ".tsv"}, "--language": {".po", ".pot", ".tmx", ".xlf", ".xliff"},
}  # fmt: skip
_SAME_KIND = {".pot": ".po", ".xlf": ".xliff", ".htm": ".html"}


def is_pattern(path: Path | None) -> bool:
    """Whether it stands for several files."""
    return path is not None and glob.has_magic(str(path)) and not path.exists()


def check_input(
    path: Path | None, out: Path | None, *, of_documents: list[str], of_lines: list[str], engine: str
) -> None:
    """Raise ``ConfigError`` for a structured file without ``--out``, and for options that would do nothing.

    Those given ``of_documents`` need ``--out``; those ``of_lines`` need to be without it, or with a pattern of files,
    which has no ``--stream`` and no ``--attention``.
    """
    if "--glossary" in of_documents and engine != "torch":
        raise ConfigError(
            f"--glossary: found with --engine {engine}, which cannot require terms, expected torch. Leave "
            "one of them out."
        )
    if is_pattern(path) and (out is None or of_documents):
        found = "without --out" if out is None else f"with {of_documents[0]}"
        raise ConfigError(
            f"--input {str(path)!r}: is a pattern of files, found {found}, expected --out DIR, the directory for the "
            "translations, and nothing of --glossary, --memory, --column, --into and --language."
        )
    if is_pattern(path) and (shown := {"--stream", "--attention"}.intersection(of_lines)):
        raise ConfigError(
            f"{min(shown)}: found with a pattern of files, whose translations are written to files, expected "
            "without. Leave it out."
        )
    if out is None:
        if of_documents:
            raise ConfigError(f"{of_documents[0]}: found without --out, expected it with a file: --input F --out G.")
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
    if not is_pattern(path):
        _check_document(path, out, of_documents, of_lines)


def _check_document(path: Path, out: Path, of_documents: list[str], of_lines: list[str]) -> None:
    """The same for one file that is translated in its own form."""
    if of_lines:
        raise ConfigError(
            f"{of_lines[0]}: found with --out, which translates a file in its own form, expected without. Leave it "
            "out; to require terms, give --glossary."
        )
    for name, endings in _READ_BY.items():
        if name in of_documents and path.suffix.lower() not in endings:
            raise ConfigError(
                f"{name}: found with a {path.suffix.lower()} file, expected one of {', '.join(sorted(endings))}. "
                "Leave it out."
            )
    kinds = [_SAME_KIND.get(place.suffix.lower(), place.suffix.lower()) for place in (path, out)]
    if kinds[0] != kinds[1] and kinds[1] in STRUCTURED:
        raise ConfigError(
            f"--out: found {out}, expected a file like --input, {path.suffix.lower()}: it is written in the same "
            f"form. Name it {out.stem}{path.suffix}."
        )


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
