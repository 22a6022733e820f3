"""An import and an export are written whole or not at all, and only to a directory with a name of its own."""

from pathlib import Path

import pytest
from interop.random_marian import write_marian
from safetensors import SafetensorError
from typer.testing import CliRunner

from glassformer.cli.main import app
from glassformer.errors import RunError, StorageError
from glassformer.interop.imported_model import ImportedModel
from glassformer.interop.new_directory import write_whole
from glassformer.interop.programs import export_model
from glassformer.interop.transformers import import_transformers


@pytest.fixture(scope="module")
def imported(tmp_path_factory) -> ImportedModel:
    place = tmp_path_factory.mktemp("theirs")
    write_marian(place)
    return import_transformers(place)


def no_space(*_, **__):
    raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")


def test_an_import_leaves_nothing_where_the_disk_is_full(imported, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("safetensors.torch.save_file", no_space)
        with pytest.raises(StorageError, match=rf"{tmp_path}/run/final.* cannot be written: .*No space left"):
            imported.write(tmp_path / "run")
    assert not list(tmp_path.iterdir())
    imported.write(tmp_path / "run")
    assert (tmp_path / "run/config.json").is_file()


@pytest.mark.parametrize("to", ["transformers", "ctranslate2"])
def test_an_export_leaves_nothing_where_the_disk_is_full(to, imported, tmp_path, monkeypatch):
    imported.write(tmp_path / "run")
    if to == "transformers":
        monkeypatch.setattr("glassformer.interop.transformers_export.save_file", no_space)
    else:
        pytest.importorskip("ctranslate2")
        monkeypatch.setattr("ctranslate2.converters.Converter.convert", _fail)
    with pytest.raises(StorageError, match=r"out: cannot be written: .*No space left"):
        export_model(tmp_path / "run", to, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def _fail(*_, **__):
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("out", [".", "/", "../here"])
@pytest.mark.parametrize("to", ["transformers", "ctranslate2"])
def test_no_export_replaces_the_current_directory_or_the_root(out, to, imported, tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    imported.write(tmp_path / "run")
    monkeypatch.chdir(tmp_path / "here")
    done = CliRunner().invoke(app, ["export", str(tmp_path / "run"), "--to", to, "--out", out])
    assert isinstance(done.exception, RunError)
    assert "expected a new directory. Name another --out." in str(done.exception)
    assert not list((tmp_path / "here").iterdir())


def test_an_import_goes_to_what_a_link_leads_to(imported, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to("empty")
    imported.write(tmp_path / "link")
    assert (tmp_path / "empty/config.json").is_file()
    assert (tmp_path / "link").is_symlink()


def test_an_empty_directory_is_replaced_and_a_full_one_is_not(tmp_path):
    (tmp_path / "new").mkdir()
    with write_whole(tmp_path / "new", "--out") as temporary:
        (temporary / "file").write_text("x")
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
    with (
        pytest.raises(RunError, match="new: exists and is not empty, expected a new directory"),
        write_whole(tmp_path / "new", "--out"),
    ):
        pass
    with pytest.raises(StorageError, match="cannot be written"), write_whole(Path("/proc/nowhere/new"), "--out"):
        pass
