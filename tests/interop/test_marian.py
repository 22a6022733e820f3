"""Marian releases: what they may not hold is named; vocabularies and searches come in as they were written."""

import json
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from interop.marian_release import write_release
from interop.random_marian import write_marian, write_spm
from interop.test_export import marian_release, write_zip

from glassformer.errors import CheckpointError, ConfigError, StorageError, TokenizerError
from glassformer.interop.archives import read_arrays
from glassformer.interop.marian.release import import_marian
from glassformer.interop.marian.text_files import read_vocabulary, read_yaml
from glassformer.interop.transformers import import_transformers
from glassformer.run_directory import load_run
from glassformer.settings import DecodeConfig


@pytest.fixture(scope="module")
def release(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("release")
    marian_release(place)
    return place / "native"


def changed_release(release: Path, directory: Path, settings: dict[str, Any], arrays: dict[str, Any]) -> Path:
    """A copy with other settings and arrays in the .npz; an array that is a function is applied to the old one."""
    yaml = pytest.importorskip("yaml")
    shutil.copytree(release, directory)
    found = dict(np.load(directory / "model.npz"))
    text = yaml.safe_load(found["special:model.yml"].tobytes().rstrip(b"\0").decode())
    text = yaml.safe_dump({**text, **settings}).encode() + b"\0"
    found["special:model.yml"] = np.frombuffer(text, dtype=np.int8)
    found |= {name: new(found[name]) if callable(new) else new for name, new in arrays.items()}
    np.savez(directory / "model.npz", **found)
    return directory


W1, BIAS = "encoder_l1_ffn_W1", "decoder_ff_logit_out_b"


@pytest.mark.parametrize(
    ("settings", "arrays", "message"),
    [
        ({"dim-vocabs": [5, 5]}, {}, r"dim-vocabs: found \[5, 5\], but the vocabularies have \[174, 174\] entries"),
        ({"enc-depth": 1}, {}, "holds encoder_l2_ffn_W1, encoder_l2_ffn_W2, .* and more, which no model of these"),
        ({"transformer-postprocess-top": "n"}, {}, "transformer-postprocess-top: found 'n', expected ''"),
        ({"transformer-tied-layers": [3, 1]}, {}, r"transformer-tied-layers: found \[3, 1\], expected a layer"),
        ({"right-left": True}, {}, "right-left: found True, expected False"),
        ({"transformer-postprocess-emb": 1}, {}, "transformer-postprocess-emb: found 1, expected 'd'"),
        ({"transformer-postprocess-emb": None}, {}, "transformer-postprocess-emb: found None, expected 'd'"),
        ({"transformer-ffn-activation": []}, {}, r"transformer-ffn-activation: found \[\], expected one of"),
        ({"dim-emb": "x"}, {}, "as a run's settings: model.d_model: found 'x'"),
        ({}, {"Wemb": lambda old: np.concatenate([old, old])}, "Wemb: found 348 rows, expected 174"),
        ({}, {"Wemb": np.float32(1)}, r"Wemb: found the shape \(\), expected a matrix"),
        ({}, {"Wemb": lambda old: old[None]}, r"Wemb: found the shape \(1, 174, 24\), expected a matrix"),
        ({}, {BIAS: lambda old: old[:, :50]}, "decoder_ff_logit_out_b: found 50 rows, expected 174"),
        ({}, {"decoder_ff_logit_out_W": np.float32(1)}, "decoder_ff_logit_out_W: found the shape"),
        ({}, {"encoder_top_ln_scale": np.ones((1, 24), np.float32)}, "holds encoder_top_ln_scale, which no model"),
        ({}, {"foo": np.zeros(2, np.float32)}, "holds foo, which no model of these settings has"),
        ({}, {W1: lambda old: old[None]}, "encoder_l1_ffn_W1: found the shape .*, expected a matrix"),
        ({}, {W1: lambda old: old.astype(np.int8)}, "encoder_l1_ffn_W1: found numbers of type int8, expected float16"),
        ({}, {W1: lambda old: old.astype(complex)}, "encoder_l1_ffn_W1: found numbers of type complex128"),
        ({}, {W1: lambda old: old.astype("datetime64[s]")}, "encoder_l1_ffn_W1: found numbers of type datetime64"),
        ({}, {W1: np.array([["a"]])}, "encoder_l1_ffn_W1: found numbers of type <U1"),
        ({}, {"special:model.yml": np.array([-1, -2], np.int8)}, "special:model.yml: is not UTF-8"),
    ],
)  # fmt: skip
def test_what_a_release_may_not_hold_is_named(settings, arrays, message, release, tmp_path):
    with pytest.raises((CheckpointError, ConfigError), match=message):
        import_marian(changed_release(release, tmp_path / "native", settings, arrays))


def test_harmless_settings_of_a_release_come_in(release, tmp_path):
    settings = {
        "version": "v1.9.0", "dim-rnn": 1024, "enc-cell": "gru", "enc-type": "bidirectional", "skip": False,
        "layer-normalization": False, "transformer-dim-aan": 2048, "transformer-aan-depth": 2, "input-types": [],
        "transformer-dropout-attention": 0, "transformer-dropout-ffn": 0.1, "right-left": False, "ulr": False,
        "char-conv-filters-num": [200, 200], "transformer-tied-layers": [], "tied-embeddings-src": False,
    }  # fmt: skip
    assert import_marian(changed_release(release, tmp_path / "native", settings, {})).notes == []


def test_a_vocabulary_that_is_cut_short_is_refused(release, tmp_path):
    place = changed_release(release, tmp_path / "native", {}, {})
    for name in ("source.vocab.yml", "target.vocab.yml"):
        lines = (place / name).read_text().splitlines(keepends=True)
        (place / name).write_text("".join(lines[:-40]))
    with pytest.raises(CheckpointError, match=r"found \[174, 174\], but the vocabularies have \[134, 134\] entries"):
        import_marian(place)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b"{'descr': '<f4,,', 'fortran_order': False, 'shape': (3,), }", "invalid syntax"),
        (b"(" * 3000, "EOF in multi-line statement|too many nested parentheses"),
        (
            b"{'descr': '" + b"x" * 500 + b"', 'fortran_order': False, 'shape': (3,), }",
            "not a valid dtype descriptor",
        ),
    ],
)
def test_a_damaged_header_of_an_array_is_named(header, message, tmp_path):
    data = b"\x93NUMPY\x01\x00" + (len(header) + 1).to_bytes(2, "little") + header + b"\n"
    with pytest.raises(CheckpointError, match=rf"npy: cannot be read as an array: .*({message}).{{,200}}\. Expected"):
        read_arrays(write_zip(tmp_path / "a.npz", {"Wemb.npy": data}))


@pytest.mark.parametrize(
    ("lines", "expected", "note"),
    [
        ("", {"max_length_a": 3.0, "max_length_b": 3}, ""),
        ("max-length-factor: 1\n", {"max_length_a": 1.0, "max_length_b": 1}, ""),
        ("n-best: true\n", {"n_best": 3}, ""),
        ("word-penalty: 0\nallow-unk: false\nmini-batch: 8\n", {}, ""),
        ("word-penalty: 0.5\nallow-unk: true\nforce-decode: true\n", {"word_penalty": 0.5, "allow_unk": True},
         "decoder.yml: not taken over: force-decode = True."),
    ],
)  # fmt: skip
def test_the_search_of_a_release_comes_in(lines, expected, note, release, tmp_path):
    place = changed_release(release, tmp_path / "native", {}, {})
    path = place / "decoder.yml"
    path.write_text(re.sub("max-length-factor.*\n", "", path.read_text()) + lines)
    imported = import_marian(place)
    assert {name: getattr(imported.config.decode, name) for name in expected} == expected
    assert imported.notes == [] if not note else imported.notes[0].startswith(f"{place}/{note}")


@pytest.mark.parametrize("line", ["normalize: x", "normalize: [1]", "beam-size: x", "max-length-factor: []"])
def test_a_search_of_another_type_is_named(line, release, tmp_path):
    place = changed_release(release, tmp_path / "native", {}, {})
    (place / "decoder.yml").write_text(f"models: [model.npz]\nvocabs: [source.vocab.yml]\n{line}\n")
    with pytest.raises(ConfigError, match=rf"decoder.yml: {line.split(':')[0]}: found .*, expected a"):
        import_marian(place)


def test_a_written_search_comes_in_as_it_was(tmp_path):
    marian_release(tmp_path)
    run = load_run(tmp_path / "run", "cpu")
    decode = DecodeConfig(
        beam=3,
        n_best=3,
        length_norm="power",
        early_stopping="shrink",
        max_length_a=1.5,
        max_length_b=2,
        allow_unk=False,
    )
    write_release(replace(run, config=replace(run.config, decode=decode)), tmp_path / "out")
    write_spm(tmp_path / "out")
    assert import_marian(tmp_path / "out").config.decode == decode


ODD = 'a\u2028b\x85c\x0bd"e\\'


def test_an_entry_with_ends_of_lines_comes_in_as_it_was_written(tmp_path):
    yaml = pytest.importorskip("yaml")
    write_marian(tmp_path / "hf")
    path = tmp_path / "hf/vocab.json"
    entries = list(json.loads(path.read_text()))
    entries[150] = ODD
    path.write_text(json.dumps({entry: at for at, entry in enumerate(entries)}))
    import_transformers(tmp_path / "hf").write(tmp_path / "run")
    write_release(load_run(tmp_path / "run", "cpu"), tmp_path / "native")
    write_spm(tmp_path / "native")
    again = import_marian(tmp_path / "native")
    assert f" {ODD}" in again.tokenizers[1].entries()
    found = yaml.safe_load((tmp_path / "native/source.vocab.yml").read_text(encoding="utf-8"))
    assert found[ODD] == 150


def test_an_escape_that_only_yaml_has_is_read(release, tmp_path):
    place = changed_release(release, tmp_path / "native", {}, {})
    for name in ("source.vocab.yml", "target.vocab.yml"):
        text = (place / name).read_text()
        (place / name).write_text(re.sub(r"(?m)^.*: 150$", r'"\\x80\\e": 150', text))
    assert " \x80\x1b" in import_marian(place).tokenizers[0].entries()


def test_names_with_escapes_are_read_without_the_slow_reader_of_yaml(tmp_path, monkeypatch):
    yaml = pytest.importorskip("yaml")
    names = [r"a\x41", r"\U0001F600", r"\0\a\v\e\N\_\L\P", r"\\x41\"\/\u00e4\t", "a\tb"]
    expected = [yaml.safe_load(f'"{name}"') for name in names]
    (tmp_path / "vocab.yml").write_text("".join(f'"{name}": {number}\n' for number, name in enumerate(names)))
    monkeypatch.setattr("glassformer.interop.marian.text_files.read_yaml", None)
    assert read_vocabulary(tmp_path / "vocab.yml") == expected
    (tmp_path / "vocab.yml").write_text(r'"\UFFFFFFFF": 0')
    with pytest.raises(TokenizerError, match=r"vocab\.yml:1: found"):
        read_vocabulary(tmp_path / "vocab.yml")


BOMB = "models: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefghi", "bcdefghij", strict=True)
)


def test_aliases_of_yaml_are_refused_before_they_grow(release, tmp_path):
    place = changed_release(release, tmp_path / "native", {}, {})
    (place / "decoder.yml").write_text(BOMB)
    with pytest.raises(
        CheckpointError, match=r"decoder\.yml: cannot be read as YAML: line 2: found the alias \*a, exp"
    ):
        import_marian(place)
    shutil.copy(release / "decoder.yml", place)
    found = dict(np.load(place / "model.npz"))
    found["special:model.yml"] = np.frombuffer(BOMB.encode() + b"\0", dtype=np.int8)
    np.savez(place / "model.npz", **found)
    with pytest.raises(CheckpointError, match=r"special:model\.yml: cannot be read as YAML: line 2: found the alias"):
        import_marian(place)


@pytest.mark.parametrize(
    "text",
    ["a: !!int x", "a: !!int ''", "a: !!bool x", "a: !!timestamp x", "a: !!float ''", "? [a]\n: b", "!" * 5000],
)
def test_yaml_that_the_library_does_not_foresee_is_refused_in_short_words(text):
    with pytest.raises(CheckpointError, match=r"decoder\.yml: (cannot be read as YAML|found str)") as raised:
        read_yaml(text, "decoder.yml")
    assert len(str(raised.value)) < 300


def test_settings_of_any_size_are_refused_before_they_are_read(release, tmp_path):
    with pytest.raises(CheckpointError, match="has 500,000 characters, expected settings of at most 262,144"):
        read_yaml("a: [" * 125_000, "decoder.yml")
    place = changed_release(release, tmp_path / "native", {}, {})
    os.truncate(place / "decoder.yml", 6 * 2**30)
    with pytest.raises(CheckpointError, match=r"decoder\.yml: cannot be read: has more than 67,108,864 bytes"):
        import_marian(place)


@pytest.mark.parametrize("name", ["generation_config.json", "vocab.json", "config.json"])
def test_json_of_another_program_without_end_is_refused_before_it_is_read(name, tmp_path):
    write_marian(tmp_path / "hf")
    (tmp_path / "hf" / name).touch()
    os.truncate(tmp_path / "hf" / name, 6 * 2**30)  # takes no room on the disk
    with pytest.raises(CheckpointError, match=rf"{name}: cannot be read as JSON: has more than 33,554,432 bytes"):
        import_transformers(tmp_path / "hf")


def test_a_member_whose_name_is_too_long_is_said(tmp_path):
    archive = write_zip(tmp_path / "long.zip", {"decoder.yml": b"models: [a]", "a" * 300 + ".yml": b""})
    with pytest.raises(StorageError, match=r"long.zip: cannot be unpacked to .*: File name too long"):
        import_marian(archive)
