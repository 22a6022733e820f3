from collections import Counter
from io import StringIO
from itertools import cycle

import pytest
import torch
from rich.console import Console

from glassformer.explain import SummaryRow, print_summary, summary_rows
from glassformer.explain.recording.summary import summary_totals
from glassformer.model import Transformer
from glassformer.settings import ModelConfig


def meta_model(name: str, **changes: object) -> Transformer:
    """A model without memory: shapes and counts need none."""
    with torch.device("meta"):
        return Transformer(ModelConfig.from_name(name, **changes))


@pytest.fixture(scope="module")
def walkthrough():
    return summary_rows(meta_model("walkthrough"))


WIDE, TABLE = (1, 200, 512), (200, 512)
ATTENTION = [("{}Attention", WIDE, 1_050_624), ("Dropout", WIDE, 0), ("LayerNorm", WIDE, 1_024)]
FEED_FORWARD = [("FeedForward", WIDE, 2_099_712), ("Dropout", WIDE, 0), ("LayerNorm", WIDE, 1_024)]


def attention(kind: str) -> list[tuple[str, tuple[int, ...], int]]:
    return [(name.format(kind), shape, count) for name, shape, count in ATTENTION]


# The walkthrough's own summary, row by row: its class, the shape of what comes out, its parameters.
PRINTED = [
    ("Transformer", (1, 200, 120), 0),
    ("InputEmbedding", WIDE, 0),
    ("Embedding", WIDE, 51_200),
    ("PositionalEncoding", TABLE, 0),
    ("ModuleList", None, 0),
    *([("Encoder", WIDE, 0), *attention("Self"), *FEED_FORWARD] * 6),
    ("OutputEmbedding", WIDE, 0),
    ("Embedding", WIDE, 61_440),
    ("PositionalEncoding", TABLE, 0),
    ("ModuleList", None, 0),
    *([("Decoder", WIDE, 0), *attention("Self"), *attention("Cross"), *FEED_FORWARD] * 6),
    ("Linear", (1, 200, 120), 61_560),
]
PRINTED_NAMES = {
    "": "Transformer", "src_embedding": "InputEmbedding", "tgt_embedding": "OutputEmbedding", "tokens": "Embedding",
    "positions": "PositionalEncoding", "encoder": "ModuleList", "decoder": "ModuleList",
    "self_attention": "SelfAttention", "cross_attention": "CrossAttention", "feed_forward": "FeedForward",
    "dropout": "Dropout", "norm": "LayerNorm", "output_projection": "Linear",
}  # fmt: skip
OURS_ALONE = ("add_norm", "embedding.dropout")  # a group around dropout and norm; the paper's dropout on embeddings


def as_printed(row: SummaryRow) -> tuple[str, tuple[int, ...] | None, int]:
    last = row.path.rpartition(".")[2]
    name = row.kind.removesuffix("Layer") if last.isdigit() else PRINTED_NAMES[last]
    return name, None if name == "ModuleList" else row.shape, row.parameters


def test_the_walkthroughs_summary_comes_out_row_by_row_and_other_rows_hold_nothing(walkthrough):
    rows = [row for row in walkthrough if not row.path.endswith(OURS_ALONE)]
    assert [as_printed(row) for row in rows] == PRINTED
    assert sum(row.parameters for row in walkthrough) == sum(count for *_, count in PRINTED) == 44_312_696
    extra = [row for row in walkthrough if row.path.endswith(OURS_ALONE)]
    assert Counter(row.kind for row in extra) == {"AddAndNorm": 12 + 18, "Dropout": 2}
    assert not any(row.parameters for row in extra)


def test_totals_are_those_of_the_walkthrough_of_products_and_of_what_is_trained():
    *_, products, sizes, memory, split, total = printed(meta_model("walkthrough"))
    assert products == "mult-adds of one pass: 9,557.61 million"
    assert sizes == "input: 0.00 MB, forward and backward pass: 134.54 MB"
    assert memory == "parameters: 177.25 MB, all together: 311.79 MB"
    assert split == "trainable: 44,312,696, not trainable: 0"
    assert total == "total parameters: 44,312,696"
    totals = summary_totals(meta_model("tiny", max_length=9), n_src=7, n_tgt=5)
    d, d_ff, vocab, layers = 128, 256, 8000, 4
    encoder = 7 * (4 * d * d + 2 * d * d_ff) + 2 * 7 * 7 * d
    decoder = 5 * (4 * d * d + 2 * d * d_ff) + 2 * 5 * 5 * d + 5 * 2 * d * d + 7 * 2 * d * d + 2 * 5 * 7 * d
    assert totals.mult_adds == layers * (encoder + decoder) + 5 * d * vocab
    assert totals.input_mb == pytest.approx(8 * 12 / 1e6)
    model = meta_model("walkthrough")
    model.src_embedding.requires_grad_(False)
    assert "trainable: 44,261,496, not trainable: 51,200" in printed(model)


@pytest.mark.slow
@pytest.mark.parametrize("positions", ModelConfig.choices("positions"))
def test_the_table_is_whole_in_80_columns(positions):
    model = meta_model("base", positions=positions)
    narrow, wide = (
        out.getvalue().splitlines()
        for width, out in ((80, StringIO()), (200, StringIO()))
        if print_summary(model, Console(file=out, width=width)) is None
    )
    place = next(place for place, line in enumerate(narrow) if line.startswith("shapes: "))
    assert max(map(len, narrow)) <= 80
    assert [line.split()[:2] for line in narrow[2:place]] == [line.split()[:2] for line in wide[2:-5]]
    shapes = " ".join(" ".join(narrow[place:]).split())
    assert (
        "shapes: model, output_projection (nbatches, n_seq_tgt, vocab); src_embedding, encoder (nbatches," in shapes
    )


@pytest.mark.parametrize(("norm", "order"), [("post", ["dropout", "norm"]), ("pre", ["norm", "dropout"])])
def test_the_rows_come_in_the_order_of_computation(norm, order):
    paths = [row.path for row in summary_rows(meta_model("tiny", norm=norm, max_length=5))]
    stacks = ["", "src_embedding", "encoder", "tgt_embedding", "decoder", "output_projection"]
    assert [path for path in paths if "." not in path] == stacks
    outer = "decoder.layers.3.cross_attention_add_norm"
    place = paths.index(outer)
    assert paths[place - 1] == "decoder.layers.3.cross_attention"
    assert paths[place + 1 : place + 3] == [f"{outer}.{name}" for name in order]


def test_the_shapes_are_those_of_the_longest_sentences_or_of_the_lengths_asked_for():
    model = meta_model("tiny", max_length=11)
    shapes = {row.path: row.shape for row in summary_rows(model)}
    assert shapes["encoder"] == shapes["decoder"] == (1, 11, 128)
    shapes = {row.path: row.shape for row in summary_rows(model, n_src=7, n_tgt=13)}
    assert (shapes["encoder"], shapes["decoder"]) == ((1, 7, 128), (1, 11, 128))


def test_symbols_tell_source_from_target(walkthrough):
    rows = {row.path: row for row in walkthrough}
    assert rows["encoder.layers.0.feed_forward"].symbols == ("nbatches", "n_seq_src", "d_model")
    assert rows["decoder.layers.5.feed_forward"].symbols == ("nbatches", "n_seq_tgt", "d_model")
    assert rows[""].symbols == ("nbatches", "n_seq_tgt", "vocab")


POSITIONS, TIED, NORMS = (ModelConfig.choices(name) for name in ("positions", "tie_embeddings", "norm"))


@pytest.mark.parametrize(("positions", "tied", "norm"), list(zip(cycle(POSITIONS), cycle(TIED), [*NORMS] * 8)))
def test_the_rows_add_up_to_the_models_parameters(positions, tied, norm):
    sizes = {"n_encoder_layers": 1, "n_decoder_layers": 2, "max_length": 5}
    model = meta_model("tiny", positions=positions, tie_embeddings=tied, norm=norm, **sizes)
    rows = summary_rows(model)
    assert sum(row.parameters for row in rows) == sum(parameter.numel() for parameter in model.parameters())
    shared = {row.path for row in rows if row.shared}
    expected = {"all": {"tgt_embedding.tokens", "output_projection"}, "target": {"output_projection"}, "none": set()}
    assert shared == expected[tied]


def test_the_paper_big_model_is_built_and_summed_without_memory():
    assert sum(row.parameters for row in summary_rows(meta_model("big"))) == pytest.approx(213e6, rel=0.02)


def test_the_random_generator_is_left_alone():
    model = Transformer(ModelConfig.tiny(src_vocab=9, tgt_vocab=9))
    before = torch.get_rng_state()
    summary_rows(model)
    assert torch.equal(torch.get_rng_state(), before)


def printed(model: Transformer, **options: int) -> list[str]:
    out = StringIO()
    print_summary(model, Console(file=out, width=100), **options)
    return [" ".join(line.split()) for line in out.getvalue().splitlines()]


def test_the_table_is_one_line_a_module_and_folds_repeated_layers_unless_all_are_asked_for():
    lines = printed(meta_model("base"), n_src=7, n_tgt=6)
    assert "src_embedding Embedding (nbatches, n_seq_src, d_model) 1×7×512" in lines
    assert "tokens Embedding (nbatches, n_seq_src, d_model) 1×7×512 18,944,000" in lines
    assert "tokens Embedding (nbatches, n_seq_tgt, d_model) 1×6×512 shared" in lines
    assert "positions SinusoidalPositions (n_seq_tgt, d_model) 6×512" in lines
    assert "output_projection OutputProjection (nbatches, n_seq_tgt, vocab) 1×6×37000 shared" in lines
    assert f"layers.1 to 5 as layers.0 {5 * (1_048_576 + 2_099_712 + 2 * 1_024):,}" in lines
    assert lines[-1] == "total parameters: 63,045,632"
    assert len(lines) == 43
    model = meta_model("tiny", n_encoder_layers=2)
    assert "layers.1 EncoderLayer (nbatches, n_seq_src, d_model) 1×7×128" in printed(model, n_src=7, all_layers=True)
    assert any(line.startswith("layers.1 as layers.0") for line in printed(model))
