"""``translate --input FILE --out FILE``: a file, translated in its own form."""

import glob
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli import options as opt
from glassformer.cli.options import option
from glassformer.cli.shards import prepare_directory
from glassformer.cli.streams import check_outputs, write_lines
from glassformer.errors import ConfigError
from glassformer.files import json_sha256
from glassformer.text.formats import FormatOptions, endings, find_format

if TYPE_CHECKING:
    from glassformer.decoding import Translator
    from glassformer.documents import DocumentReport
    from glassformer.documents.checklist import Remark
    from glassformer.settings import DecodeConfig
    from glassformer.text.columns import Columns

_PANEL = "Files in their own form"
_MAX_SHOWN, _MAX_REMARKS = 500, 10  # characters of a text that are printed, and remarks of one text
_OUT = (
    "Write --input here in its own form: "
    f"{' '.join(endings(lambda each: each.segments, first=True))}. With a pattern: the directory for the translations"
)
_GLOSSARY = "TSV: term, translation, other accepted forms"
_MEMORY = "Earlier translations, taken for the same texts"
_COLUMNS = (
    "Columns of a table, by number or name: English:German, or 1+3:2 for texts with features. Without a target it is "
    "the column named so, else the next unnamed one; without --out each row is a text"
)
_LANGUAGE = (
    "The target language, if neither the file nor the run names it "
    f"({' '.join(endings(lambda each: 'language' in each.options, first=True))}): de"
)
_REPORT = "Write the list of what to check here, the texts that are only doubtful included"


@dataclass(frozen=True, kw_only=True)
class DocumentOptions:
    """Options for files in their own form."""

    glossary: Annotated[Path | None, option(_GLOSSARY, panel=_PANEL, metavar="FILE")] = None
    memory: Annotated[Path | None, option(_MEMORY, panel=_PANEL, metavar="FILE")] = None
    columns: Annotated[str | None, option(_COLUMNS, panel=_PANEL, metavar="SRC:TGT")] = None
    separator: Annotated[str | None, option("Between features; default: ;", panel=_PANEL, metavar="SIGN")] = None
    language: Annotated[str | None, option(_LANGUAGE, panel=_PANEL)] = None
    report: Annotated[Path | None, option(_REPORT, panel=_PANEL, metavar="FILE")] = None

    def find_columns(self) -> "Columns | None":
        """The columns that are named."""
        return opt.ColumnOptions(columns=self.columns, separator=self.separator).find()

    def check_output(self, path: Path | None, out: Path | None) -> None:
        """Raise an error for an ``--out`` that cannot be written, or that is read."""
        if not is_pattern(path):
            outputs = {"--out": out, "--report": self.report}
            check_outputs(outputs, {"--input": path, "--glossary": self.glossary, "--memory": self.memory})


Out = Annotated[Path | None, option(_OUT, panel=_PANEL)]


def is_pattern(path: Path | None) -> bool:
    """Whether it matches several files."""
    return path is not None and glob.has_magic(str(path)) and not path.exists()


def check_input(
    path: Path | None, out: Path | None, *, document_options: list[str], line_options: list[str], engine: str
) -> None:
    """Raise ``ConfigError`` for a structured file without ``--out``, and for options that would do nothing."""
    has_columns = "--columns" in document_options
    if "--glossary" in document_options and engine == "ctranslate2":
        raise ConfigError(f"--glossary: found with {engine}, which cannot require terms. Drop one of both.")
    if is_pattern(path) and (out is None or document_options):
        found = "without --out" if out is None else f"with {document_options[0]}"
        raise ConfigError(f"--input {str(path)!r}: is a pattern of files, found {found}, expected --out DIR alone.")
    shown = {"--stream", "--attention"}.intersection(line_options)
    if is_pattern(path) and shown:
        raise ConfigError(f"{min(shown)}: found with a pattern of files, which shows nothing. Leave it out.")
    if out is None:
        document_options = [name for name in document_options if name not in ("--columns", "--separator")]
        if document_options:
            raise ConfigError(f"{document_options[0]}: found without --out, expected --input F --out G.")
        if has_columns and path is None:
            raise ConfigError("--columns: found without --input, expected the table to translate: --input F.")
        if path is not None and not has_columns and find_format(path).lines is None:
            raise ConfigError(
                f"--input {path}: is a {path.suffix.lower()} file, whose lines are no texts, expected --out with it: "
                f"--out {path.stem}.translated{path.suffix}. Or, of a table, name its texts: --columns 1."
            )
        return
    if path is None:
        raise ConfigError("--out: found without --input, expected the file to translate: --input F --out G.")
    if is_pattern(path):
        prepare_directory(path, out)
    else:
        _check_document(path, out, document_options, line_options)


def _check_document(path: Path, out: Path, document_options: list[str], line_options: list[str]) -> None:
    if line_options:
        raise ConfigError(f"{line_options[0]}: found with --out. Leave it out; --glossary requires terms.")
    file_format, out_format = find_format(path), find_format(out)
    for name in (field.name for field in fields(FormatOptions) if f"--{field.name}" in document_options):
        if name not in file_format.options:
            takers = ", ".join(sorted(endings(lambda each: name in each.options)))  # noqa: B023  # called at once
            raise ConfigError(
                f"--{name}: found with a {path.suffix.lower()} file, expected one of {takers}. Leave it out."
            )
    if out_format.lines is None and out_format is not file_format:
        raise ConfigError(
            f"--out: found {out}, expected a {path.suffix.lower()} file, as --input is. "
            f"Name it {out.stem}{path.suffix}."
        )


def translate_document(
    translator: "Translator",
    path: Path,
    out: Path,
    options: "DecodeConfig",
    chosen: DocumentOptions,
    key: str,
    *,
    split: bool,
    verbose: bool,
) -> None:
    """Translate the file and report on standard error; after a stop it continues with the same ``key``."""
    from glassformer.documents import FileTranslator, Glossary, Memory
    from glassformer.documents.translate_file import complete_options
    from glassformer.text.corpus.corpus import describe_pairs

    columns = FormatOptions(chosen.find_columns(), chosen.language)
    columns, file_format = complete_options(columns, path, translator.languages), find_format(path)
    describe = file_format.describe_segments
    taken = None if describe is None else describe(path, **file_format.select(columns))
    if taken:
        typer.echo(taken, err=True)
    _warn_of_languages(path, options.src_language, columns.language, translator.languages)
    memory = None
    if chosen.memory is not None:
        memory = Memory.read(chosen.memory)
        told = describe_pairs(chosen.memory) or f"{chosen.memory}:"
        typer.echo(f"{told} {len(memory):,} texts in the memory.", err=True)
    files = FileTranslator(
        translator,
        options,
        glossary=None if chosen.glossary is None else Glossary.read(chosen.glossary),
        memory=memory,
        split=split,
        progress=_show_progress if sys.stderr.isatty() else None,
        key=json_sha256([key, options.to_mapping()]),
    )
    report = files.translate(path, out, columns)
    if chosen.report is not None:
        write_lines(chosen.report, [*_describe(path, "note", report.notes), *_describe(path, "check", report.checks)])
    _print_report(report, path, out, opt.used_engines(translator), verbose=verbose)


def _warn_of_languages(path: Path, src: str, language: str | None, languages: tuple[str, str] | None) -> None:
    """Warn of languages of the file that are not those of the model."""
    from glassformer.text.languages import same_language

    read = find_format(path).languages
    named = [*([] if read is None else read(path)), "", ""]
    found, wanted, tgt = named[0], language or named[1], languages[1] if languages is not None else ""
    if found and src and not same_language(found, src):
        typer.echo(f"warning: {path}: its texts are in {found}, and the model translates from {src}.", err=True)
    if wanted and tgt and not same_language(wanted, tgt):
        typer.echo(f"warning: {path}: is to be in {wanted}, and the model translates to {tgt}.", err=True)


def _show_progress(done: int, total: int) -> None:
    sys.stderr.write(f"\r{done:,} of {total:,} texts" + ("\n" if done == total else ""))


def _print_report(report: "DocumentReport", path: Path, out: Path, engines: str, *, verbose: bool = False) -> None:
    from glassformer.documents.checklist import DOUBTFUL

    is_short = report.is_mostly_doubtful and not verbose
    checks = [one for one in report.checks if not (is_short and one.kind == DOUBTFUL)]
    for line in (*_describe(path, "note", report.notes), *_describe(path, "check", checks)):
        typer.echo(line, err=True)
    memory = f", {report.from_memory:,} of them from the memory" if report.from_memory else ""
    check = report.summary()
    look = f"; {check}" if check else ""
    look += ". -v names each, --report FILE lists all" if is_short else ""
    before = f", after {report.resumed:,} texts that were translated before a stop" if report.resumed else ""
    texts = "1 text" if report.segments == 1 else f"{report.segments:,} texts"
    typer.echo(f"{out}: {texts} filled{engines}{memory}{before}{look}.", err=True)


def _describe(path: Path, kind: str, remarks: "Sequence[Remark]") -> Iterator[str]:
    """A line for each remark; of a text that the file has again one that counts them."""
    times = Counter((one.source, one.remark, one.text) for one in remarks)
    for (line, _), group in groupby(remarks, lambda one: (one.line, one.source)):
        counted = [(one, times.pop((one.source, one.remark, one.text), 0)) for one in group]
        of_text = [(one, count) for one, count in counted if count]
        for one, count in of_text[:_MAX_REMARKS]:
            again = f" ({count:,} times)" if count > 1 else ""
            yield f"{path}:{line}: {kind}: {_shorten(one.remark)}: {_shorten(one.text)!r}{again}"
        if len(of_text) > _MAX_REMARKS:
            yield f"{path}:{line}: {kind}: {len(of_text) - _MAX_REMARKS:,} more of this text"


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"
