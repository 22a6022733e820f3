"""Where models of other programs are, and which program they are of: directories, archives, names on the hub."""

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from glassformer.errors import RunError
from glassformer.interop.imported_model import ImportedModel
from glassformer.run_directory import RunDirectory, load_run


def read_model(source: str, say: Callable[[str], None]) -> ImportedModel:
    """The model at ``source``: a directory, a .zip, or, if there is none of that name, a model of the hub.

    ``say`` is called before something is fetched. Raises ``RunError`` if it is none of these.
    """
    from glassformer.interop.marian import import_marian, is_marian
    from glassformer.interop.transformers import import_transformers, is_transformers

    place = Path(source)
    if not place.exists():
        if place.is_absolute() or source.startswith(".") or source.count("/") != 1:
            raise RunError(
                f"{source}: there is no such file or directory, and it is no name on the hub (user/model)."
            )
        place = download(source, say)
    if (place / "model.bin").is_file():
        raise RunError(
            f"{source}: is a CTranslate2 directory, which cannot be imported. Import the model that it was made of."
        )
    if is_marian(place):
        return import_marian(place)
    if is_transformers(place):
        return import_transformers(place)
    if place.is_dir() and RunDirectory(place).exists and RunDirectory(place).has_checkpoints:
        raise RunError(f"{source}: is a run of glassformer already. Use it as it is.")
    raise RunError(
        f"{source}: is no model that can be read, expected a MarianMT directory with config.json and "
        "model.safetensors, or a Marian release with decoder.yml, .npz, .spm files and a vocabulary."
    )


def download(name: str, say: Callable[[str], None]) -> Path:
    """The directory of a model of the Hugging Face hub; its safetensors may be in a pull request, ``refs/pr/*``.

    Raises ``RunError`` without ``huggingface_hub`` or without the network.
    """
    try:
        hub = importlib.import_module("huggingface_hub")
    except ImportError as error:
        raise RunError(
            f"{name}: is no directory, and huggingface_hub, which would fetch it, is not installed. Install it: "
            "pip install 'glassformer[import]'"
        ) from error
    from glassformer.interop.transformers import WEIGHTS_FILE

    wanted = ["*.json", "*.spm", WEIGHTS_FILE]
    try:
        revision = _revision_with(WEIGHTS_FILE, hub, name)
        say(f"fetching {name}, revision {revision} ...")
        return Path(hub.snapshot_download(name, revision=revision, allow_patterns=wanted))
    except Exception as error:  # the library raises errors of several others
        raise RunError(
            f"{name}: is no directory, and cannot be fetched from the hub: {str(error).splitlines()[0]} "
            "Check the name and the network, or download it elsewhere and name its directory."
        ) from error


def _revision_with(file: str, hub: Any, name: str) -> str:
    """The first of main and the pull requests whose files include ``file``; main if none."""
    api = hub.HfApi()
    requests = [ref.ref for ref in api.list_repo_refs(name, include_pull_requests=True).pull_requests or ()]
    for revision in ("main", *requests):
        if file in api.list_repo_files(name, revision=revision):
            return str(revision)
    return "main"


def export_model(place: Path, to: str, out: Path, quantization: str | None = None) -> list[str]:
    """Write the run at ``place`` for the program ``to``; returns what a reader should know of the result."""
    run = load_run(place, "cpu")
    if to == "transformers":
        from glassformer.interop.transformers_export import export_transformers

        return export_transformers(run, out)
    from glassformer.interop.ctranslate2 import export_ctranslate2
    from glassformer.interop.shortlist import read_shortlist

    export_ctranslate2(run, out, quantization, shortlist=read_shortlist(run))
    return []
