"""Where models of other programs are, and which program they are of: directories, archives, names on the hub."""

from collections.abc import Callable
from pathlib import Path

from glassformer.errors import RunError
from glassformer.interop.imported_model import ImportedModel
from glassformer.run_directory import RunDirectory, load_run


def read_model(source: str, say: Callable[[str], None]) -> ImportedModel:
    """The model at ``source``: a directory, a .zip, or, if there is none of that name, a model of the hub.

    ``say`` is called before something is fetched. Raises ``RunError`` if it is none of these.
    """
    from glassformer.interop.marian import import_marian, is_marian
    from glassformer.interop.transformers import download, import_transformers, is_transformers

    place = Path(source)
    if not place.exists():
        if place.is_absolute() or source.startswith(".") or source.count("/") != 1:
            raise RunError(
                f"{source}: there is no such file or directory, and it is no name on the hub (user/model)."
            )
        place = download(source, say)
    if is_marian(place):
        return import_marian(place)
    if is_transformers(place):
        return import_transformers(place)
    if place.is_dir() and RunDirectory(place).exists:
        raise RunError(f"{source}: is a run of glassformer already. Use it as it is.")
    raise RunError(
        f"{source}: is no model that can be read, expected a MarianMT directory with config.json and "
        "model.safetensors, or a Marian release with decoder.yml, .npz, .spm files and a vocabulary."
    )


def export_model(place: Path, to: str, out: Path, quantization: str | None = None) -> list[str]:
    """Write the run at ``place`` for the program ``to``; returns what a reader should know of the result."""
    run = load_run(place, "cpu")
    if to == "transformers":
        from glassformer.interop.transformers_export import export_transformers

        return export_transformers(run, out)
    if to == "marian":
        from glassformer.interop.marian_export import export_marian

        return export_marian(run, out)
    from glassformer.interop.ctranslate2 import export_ctranslate2

    export_ctranslate2(run, out, quantization)
    return []
