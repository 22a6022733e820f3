"""The register of other programs: how a model of each is recognized, read, written and fetched.

A new program is an entry here and its file in this folder.
"""

import importlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.errors import ConfigError, RunError, check_path

_HUB = "hf:"  # before the name of a model on the Hugging Face hub
_NAME_ON_HUB = re.compile(r"\w[\w.-]*/\w[\w.-]*", re.ASCII)

if TYPE_CHECKING:
    from glassformer.interop.imported_model import ImportedModel


@dataclass(frozen=True, kw_only=True)
class Program:
    """Another program; imports need its ``read``, exports its ``write``."""

    name: str
    """What ``--to`` calls it."""
    title: str
    recognizes: Callable[[Path], bool]
    """Whether a place holds a model of it."""
    read: "Callable[..., ImportedModel] | None" = None
    reads: tuple[str, ...] = ()
    """The options that ``read`` takes."""
    source: str = ""
    """What is read, in words."""
    advice: str = ""
    """What to do with a model that cannot be imported."""
    hub_files: tuple[str, ...] = ()
    """What is fetched from the hub: the weights, which choose a revision, and patterns."""
    write: Callable[..., list[str]] | None = None
    """Writes a ``LoadedRun`` to a new directory with the options it ``takes``; returns notes."""
    takes: tuple[str, ...] = ()


def _lazy(address: str) -> Callable[..., Any]:
    """A ``module.function`` of this folder that is imported when called."""
    module, _, function = address.rpartition(".")

    def call(*args: Any, **options: Any) -> Any:
        return getattr(importlib.import_module(f"glassformer.interop.{module}"), function)(*args, **options)

    return call


# A place that several recognize belongs to the last of them.
PROGRAMS = (
    Program(
        name="transformers",
        title="Hugging Face",
        recognizes=_lazy("transformers.is_transformers"),
        read=_lazy("transformers.import_transformers"),
        reads=("positions",),
        source="a MarianMT directory with config.json and model.safetensors",
        hub_files=("model.safetensors", "*.json", "*.spm"),
        write=_lazy("transformers_export.export_transformers"),
    ),
    Program(
        name="marian",
        title="Marian",
        recognizes=_lazy("marian.release.is_marian"),
        read=_lazy("marian.release.import_marian"),
        reads=("positions", "vocab", "shortlist"),
        source="a model of Marian (.npz, .bin, or its directory or .zip with decoder.yml and vocabularies)",
        write=_lazy("marian.export.export_marian"),
    ),
    Program(
        name="ctranslate2",
        title="CTranslate2",
        recognizes=_lazy("ctranslate2.is_ctranslate2"),
        advice="Import the model that it was made of.",
        write=_lazy("ctranslate2.export_ctranslate2"),
        takes=("quantization", "shortlist"),
    ),
    Program(
        name="argos",
        title="Argos Translate",
        recognizes=_lazy("argos.is_argos"),
        advice="Import the model that it was made of.",
        write=_lazy("argos.export_argos"),
        takes=("quantization", "langs"),
    ),
)


def export_targets(option: str = "") -> list[str]:
    """The programs that a run can be exported to, or those that take an ``option``."""
    return [each.name for each in PROGRAMS if each.write is not None and (not option or option in each.takes)]


def import_sources() -> list[str]:
    """What can be imported, in words."""
    return [each.source for each in PROGRAMS if each.read is not None]


def find_program(place: Path) -> Program | None:
    """The program of the model at ``place``; None for our runs and for other files."""
    return next((each for each in reversed(PROGRAMS) if each.recognizes(place)), None)


def read_model(source: str, report: Callable[[str], None], **options: Any) -> "ImportedModel":
    """The model at ``source``, a directory, .zip or name on the hub; ``RunError`` for anything else.

    The hub is asked for a name without hf: if nothing here has it, after a ``report``. ``ConfigError`` for
    an option that the program does not take.
    """
    from glassformer.run_directory import RunDirectory

    place, source = check_path("source", source), str(source)
    name = source.removeprefix(_HUB)
    if source.startswith(_HUB) or not place.exists():
        if _NAME_ON_HUB.fullmatch(name) is None:
            raise RunError(
                f"{source}: there is no such file or directory, and it is no name on the hub (hf:user/model)."
            )
        here = "" if source.startswith(_HUB) else f"{source}: there is no such file or directory here; "
        report(f"{here}asking huggingface.co for the model {_HUB}{name} ...")
        place = download(name, report)
    program = find_program(place)
    if program is not None and program.read is not None:
        options = {name: value for name, value in options.items() if value}
        for name in sorted(options.keys() - set(program.reads)):
            raise ConfigError(f"--{name}: found with a model of {program.title}, which has no use for it. Leave it.")
        found = options.get("positions", "paper")
        if found not in ("marian", "paper"):
            raise ConfigError(f"--positions: found {found!r}, expected marian or paper. Choose one of these.")
        return program.read(place, **options)
    if program is not None:
        raise RunError(f"{source}: is made for {program.title}, and cannot be imported. {program.advice}")
    if place.is_dir() and RunDirectory(place).exists and RunDirectory(place).has_checkpoints:
        raise RunError(f"{source}: is a run of glassformer already. Use it as it is.")
    raise RunError(f"{source}: is no model that can be read, expected {', or '.join(import_sources())}.")


def download(name: str, report: Callable[[str], None]) -> Path:
    """The directory of a model of the hub, from main or a pull request."""
    try:
        hub = importlib.import_module("huggingface_hub")
    except ImportError as error:
        raise RunError(
            f"{name}: is no directory, and huggingface_hub, which would fetch it, is not installed. Install it in "
            "the clone: pip install '.[import]'"
        ) from error
    fetched = [each.hub_files for each in PROGRAMS if each.hub_files]
    try:
        revision = _revision_with({files[0] for files in fetched}, hub, name)
        report(f"fetching {name}, revision {revision} ...")
        patterns = sorted({pattern for files in fetched for pattern in files})
        return Path(hub.snapshot_download(name, revision=revision, allow_patterns=patterns))
    except Exception as error:  # the library raises errors of several others
        raise RunError(
            f"{name}: is no directory, and cannot be fetched from the hub: {str(error).splitlines()[0]} "
            "Check the name and the network, or download it elsewhere and name its directory."
        ) from error


def _revision_with(files: set[str], hub: Any, name: str) -> str:
    """The first of main and the pull requests that has one of ``files``; main if none."""
    api = hub.HfApi()
    requests = [ref.ref for ref in api.list_repo_refs(name, include_pull_requests=True).pull_requests or ()]
    for revision in ("main", *requests):
        if files.intersection(api.list_repo_files(name, revision=revision)):
            return str(revision)
    return "main"


def export_model(place: Path, to: str, out: Path, **options: Any) -> list[str]:
    """Write the run at ``place`` for the program ``to``; returns notes."""
    from glassformer.interop.new_directory import check_new_directory
    from glassformer.interop.shortlist import read_shortlist
    from glassformer.run_directory import load_run

    write = next((each.write for each in PROGRAMS if each.name == to), None)
    if write is None:
        raise ConfigError(f"--to: found {to!r}, expected {' or '.join(export_targets())}. Choose one of these.")
    options = {name: value for name, value in options.items() if value is not None}
    for option in options:
        known = export_targets(option)
        if to not in known:
            names = " or ".join(f"--to {name}" for name in known)
            raise ConfigError(f"--{option}: found with --to {to}, expected {names}, which alone has it.")
    check_new_directory(check_path("--out", out), "--out")
    run = load_run(check_path("run", place), "cpu")
    if to in export_targets("shortlist"):
        options["shortlist"] = read_shortlist(run)
    return write(run, out, **options)
