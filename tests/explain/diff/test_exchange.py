"""A conversion that translates otherwise than its model: what is wrong with it is named."""

import json
from pathlib import Path

import pytest
import torch
from interop.marian_models import sentences, write_marian, write_run
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from glassformer.checkpoint import weights_of
from glassformer.cli.main import app
from glassformer.explain.diff.exchange import diff_exchange
from glassformer.interop.places import read_model
from glassformer.interop.transformers import their_name, with_end
from glassformer.interop.transformers_export import export_transformers
from glassformer.run_directory import load_run
from glassformer.text.tokenizer import Tokenizer

TEXTS = sentences(4, 5)


@pytest.fixture
def places(tmp_path) -> tuple[Path, Path]:
    """A run and its export."""
    write_run(tmp_path / "run", norm="post", output_bias=True)
    export_transformers(load_run(tmp_path / "run", "cpu"), tmp_path / "out")
    return tmp_path / "run", tmp_path / "out"


def change_json(path: Path, **values: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def change_weights(directory: Path, **values: torch.Tensor) -> None:
    path = directory / "model.safetensors"
    save_file({**load_file(path), **values}, path, {"format": "pt"})


def test_a_whole_conversion_agrees(places):
    found = diff_exchange(*places, TEXTS, device="cpu")
    assert found.agrees, found.lines()
    assert found.largest_gap < 1e-4
    assert found.lines()[-1] == "They agree."


def wrong_start(out: Path, run: Path) -> None:
    for name in ("config.json", "generation_config.json"):
        change_json(out / name, decoder_start_token_id=2)


def swapped_layout(out: Path, run: Path) -> None:
    """Weights written without the permutation, under the names that they should have."""
    ours = weights_of(load_run(run, "cpu").model)
    stacks = {their_name(name): value for name, value in ours.items() if name.startswith(("encoder", "decoder"))}
    change_weights(out, **stacks, **{"model.shared.weight": ours["src_embedding.tokens.weight"]})


def dropped_bias(out: Path, run: Path) -> None:
    change_weights(out, final_logits_bias=torch.zeros_like(load_file(out / "model.safetensors")["final_logits_bias"]))


def other_norm(out: Path, run: Path) -> None:
    change_json(out / "generation_config.json", length_penalty=2.0)


def other_tokenizer(out: Path, run: Path) -> None:
    size = load_run(run, "cpu").src_tokenizer.size
    other = Tokenizer.train("bpe", sentences(900, 8), size)
    assert other.size == size
    (out / "tokenizer.json").write_text(with_end(other.json))


@pytest.mark.parametrize(
    ("mistake", "cause", "detail"),
    [
        (wrong_start, "start token", "A starts a target with <s>, B with </s>"),
        (swapped_layout, "sinusoid layout", "is permuted twice"),
        (dropped_bias, "output bias", "B none"),
        (other_norm, "search setting", "decode.length_penalty is 0.6 in A, 2.0 in B"),
        (other_tokenizer, "tokenizer", "of the source: "),
    ],
)
def test_what_is_wrong_with_a_conversion_is_named(mistake, cause, detail, places):
    run, out = places
    mistake(out, run)
    found = diff_exchange(run, out, TEXTS, device="cpu")
    assert not found.agrees
    assert found.findings[0].what == cause, found.lines()
    assert detail in found.findings[0].detail
    assert cause in found.cause
    assert all(one.why == cause for one in found.outputs)
    json.dumps(found.to_mapping())


def test_an_import_agrees_with_what_it_was_made_of(tmp_path):
    write_marian(tmp_path / "hf")
    read_model(str(tmp_path / "hf"), print).write(tmp_path / "run")
    done = CliRunner().invoke(app, ["diff", str(tmp_path / "hf"), str(tmp_path / "run"), "--text", TEXTS[0]])
    assert done.exit_code == 0, done.output
    assert "They agree." in done.output


def test_a_ctranslate2_directory_is_compared_by_its_scores_and_outputs(places, tmp_path):
    pytest.importorskip("ctranslate2")
    run, ct2 = places[0], tmp_path / "ct2"
    done = CliRunner().invoke(app, ["export", str(run), "--to", "ctranslate2", "--out", str(ct2)])
    assert done.exit_code == 0, done.output
    found = diff_exchange(run, ct2, TEXTS, device="cpu")
    assert found.largest_gap < 1e-3, found.lines()
    assert not found.findings, found.lines()
    change_json(ct2 / "config.json", decoder_start_token="</s>")
    broken = diff_exchange(run, ct2, TEXTS, device="cpu")
    assert broken.findings[0].what == "start token"
    assert broken.largest_gap > 0.01
