from collections import Counter
from io import StringIO

import pytest
import torch
from rich.console import Console

from glassformer.config import ModelConfig
from glassformer.explain import print_summary, summary_rows
from glassformer.model import Transformer


def meta_model(name: str, **changes: object) -> Transformer:
    """A model without memory: shapes and counts need none."""
    with torch.device("meta"):
        return Transformer(ModelConfig.named(name, **changes))


@pytest.fixture(scope="module")
def walkthrough():
    return summary_rows(meta_model("walkthrough"), n_src=200, n_tgt=200)


def test_the_walkthroughs_table_comes_out_count_for_count(walkthrough):
    assert sum(row.parameters for row in walkthrough) == 44_312_696
    counts = Counter((row.kind, row.parameters) for row in walkthrough if row.parameters)
    assert counts == {
        ("Embedding", 51_200): 1,
        ("Embedding", 61_440): 1,
        ("MultiHeadAttention", 1_050_624): 6 + 12,
        ("LayerNorm", 1_024): 12 + 18,
        ("FeedForward", 2_099_712): 6 + 6,
        ("OutputProjection", 61_560): 1,
    }


def test_the_walkthroughs_output_shapes_come_out(walkthrough):
    shapes = {row.path: row.shape for row in walkthrough}
    assert shapes[""] == shapes["output_projection"] == (1, 200, 120)
    assert {shape for path, shape in shapes.items() if path not in ("", "output_projection")} == {(1, 200, 512)}
    assert shapes.keys() >= {f"decoder.layers.{n}.cross_attention" for n in range(6)}


def test_symbols_tell_source_from_target(walkthrough):
    rows = {row.path: row for row in walkthrough}
    assert rows["encoder.layers.0.feed_forward"].symbols == ("nbatches", "n_seq_src", "d_model")
    assert rows["decoder.layers.5.feed_forward"].symbols == ("nbatches", "n_seq_tgt", "d_model")
    assert rows[""].symbols == ("nbatches", "n_seq_tgt", "vocab")


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "relative", "rotary"])
@pytest.mark.parametrize("tied", ["all", "target", "none"])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_rows_add_up_to_the_models_parameters(positions, tied, norm):
    model = meta_model("tiny", positions=positions, tie_embeddings=tied, norm=norm, max_length=5)
    rows = summary_rows(model)
    assert sum(row.parameters for row in rows) == sum(parameter.numel() for parameter in model.parameters())
    shared = {row.path for row in rows if row.shared}
    assert (
        shared
        == {"all": {"tgt_embedding", "output_projection"}, "target": {"output_projection"}, "none": set()}[tied]
    )


def test_the_paper_big_model_is_built_and_summed_without_memory():
    assert sum(row.parameters for row in summary_rows(meta_model("big"))) == pytest.approx(213e6, rel=0.02)


def test_the_random_generator_is_left_alone():
    model = Transformer(ModelConfig.tiny(src_vocab=9, tgt_vocab=9))
    before = torch.get_rng_state()
    summary_rows(model)
    assert torch.equal(torch.get_rng_state(), before)


def printed(model: Transformer, **options: bool) -> list[str]:
    out = StringIO()
    print_summary(model, Console(file=out, width=100), **options)
    return [" ".join(line.split()) for line in out.getvalue().splitlines()]


def test_the_table_is_one_line_a_module_and_folds_repeated_layers():
    lines = printed(meta_model("base"))
    assert "src_embedding Embedding (nbatches, n_seq_src, d_model) 1×7×512 18,944,000" in lines
    assert "tgt_embedding Embedding (nbatches, n_seq_tgt, d_model) 1×6×512 shared" in lines
    assert "output_projection OutputProjection (nbatches, n_seq_tgt, vocab) 1×6×37000 shared" in lines
    assert f"layers.1 to 5 as layers.0 {5 * (1_048_576 + 2_099_712 + 2 * 1_024):,}" in lines
    assert lines[-1] == "total parameters: 63,045,632"
    assert len(lines) == 28


def test_all_layers_are_listed_on_request():
    model = meta_model("tiny", n_encoder_layers=2)
    assert "layers.1 EncoderLayer (nbatches, n_seq_src, d_model) 1×7×128" in printed(model, all_layers=True)
    assert any(line.startswith("layers.1 as layers.0") for line in printed(model))
