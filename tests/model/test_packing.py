"""Rows without padding give what the padded form gives, forward and backward."""

import pytest
import torch

from glassformer.model import Transformer
from glassformer.model.attention import split_heads
from glassformer.model.packing import PackedRows
from glassformer.settings import ModelConfig

SRC_LENGTHS, TGT_LENGTHS = (9, 3, 1, 6, 0), (7, 2, 5, 1, 4)  # one source is empty: its queries attend to nothing


def ids(lengths: tuple[int, ...], vocab: int) -> torch.Tensor:
    places = torch.arange(max(lengths))
    drawn = torch.randint(3, vocab, (len(lengths), max(lengths)))
    return drawn.masked_fill(places >= torch.tensor(lengths)[:, None], 0)


def outputs_and_gradients(model: Transformer, hidden: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    model.zero_grad()
    torch.manual_seed(1)
    (hidden * torch.randn_like(hidden)).sum().backward()
    weights = model.named_parameters()
    return hidden.detach(), {name: weight.grad for name, weight in weights if weight.grad is not None}


@pytest.mark.parametrize("positions", ModelConfig.choices("positions"))
@pytest.mark.parametrize(
    "changes",
    [{"norm": "pre"}, {"norm": "post", "attention_bias": True}, {"d_v": 7}, {"d_v": 7, "attention_bias": True}],
)
@pytest.mark.parametrize("fused", [False, True])
def test_outputs_and_gradients_are_those_of_the_padded_form(positions, changes, fused):
    torch.manual_seed(2)
    sizes = {"src_vocab": 23, "tgt_vocab": 19, "d_model": 24, "n_heads": 3, "d_ff": 31, "max_length": 40}
    config = ModelConfig(**sizes, **changes, positions=positions, tie_embeddings="target", dropout=0.0,
                         n_encoder_layers=2, n_decoder_layers=2)  # fmt: skip
    model = Transformer(config).double()
    model.use_fused_attention(fused)
    for name, weight in model.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(weight)
    src_ids, tgt_in_ids = ids(SRC_LENGTHS, 23), ids(TGT_LENGTHS, 19)
    kept = tgt_in_ids != 0
    expected = outputs_and_gradients(model, model.hidden(src_ids, tgt_in_ids)[kept])
    found = outputs_and_gradients(model, model.hidden_rows(src_ids, tgt_in_ids, kept)[0])
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)


def test_packed_heads_stand_where_those_of_the_padded_form_do() -> None:
    kept = torch.arange(5) < torch.tensor([[5], [0], [2]])
    rows, x = PackedRows(kept), torch.randn(3, 5, 4 * 6)
    packed = rows.pack(x)
    heads = rows.pad_heads(split_heads(packed, 4))
    expected = split_heads(x, 4).transpose(1, 2)
    shown = kept[:, None, :, None].expand(3, 4, 5, 6)
    assert torch.equal(heads[shown], expected[shown])
    assert torch.equal(rows.pack_heads(heads).flatten(2), packed)
