"""The SSRU: a case worked by hand, and what a decoder with it does not do."""

import pytest
import torch
from torch import nn

from glassformer.errors import InputError
from glassformer.model import Transformer
from glassformer.model.attention import MultiHeadAttention
from glassformer.model.packing import PackedRows
from glassformer.model.ssru import SSRU
from glassformer.settings import ModelConfig
from glassformer.trace import tracing


def by_hand() -> SSRU:
    """One number wide: the candidate is 2 x, the gate σ(0) = 0.5 at x = 0 and σ(ln 3) = 0.75 at x = 1."""
    ssru = SSRU(ModelConfig(d_model=1, n_heads=1, positions="learned"))
    with torch.no_grad():
        for weight, value in ((ssru.w.weight, 2.0), (ssru.w_f.weight, 3.0), (ssru.w_f.bias, 0.0)):
            nn.init.constant_(weight, value)
        ssru.w_f.weight.fill_(torch.tensor(3.0).log())
    return ssru


SENTENCE = torch.tensor([1.0, 0.0, -1.0, 1.0])
# z = 2, 0, -2, 2 and f = 0.75, 0.5, 0.25, 0.75: c = 0.25·2, 0.5·0.5, 0.25·0.25 − 0.75·2, 0.75·c + 0.25·2
CELLS = [0.5, 0.25, -1.4375, -0.578125]


def test_a_case_worked_by_hand():
    found = by_hand()(SENTENCE[None, :, None])
    torch.testing.assert_close(found.flatten(), torch.tensor(CELLS).relu())
    with tracing(ssru := by_hand()) as trace:
        ssru(SENTENCE[None, :, None])
    torch.testing.assert_close(trace["cell"].flatten(), torch.tensor(CELLS))


def test_the_state_starts_anew_at_each_packed_sentence():
    kept = torch.tensor([[True, True, True, True], [True, True, False, False]])
    rows, ssru = PackedRows(kept), by_hand()
    packed = torch.cat([SENTENCE, SENTENCE[:2]])[None, :, None]
    expected = torch.tensor([*CELLS, *CELLS[:2]]).relu()
    torch.testing.assert_close(ssru(packed, rows).flatten(), expected)


def test_its_decoder_attends_to_the_source_alone_and_sees_no_later_target(small_model, src_ids, tgt_ids):
    model = small_model(autoregressive_sublayer="ssru")
    assert [name for name, one in model.decoder.named_modules() if isinstance(one, MultiHeadAttention)] == [
        "layers.0.cross_attention", "layers.1.cross_attention",
    ]  # fmt: skip
    with torch.no_grad(), tracing(model) as trace:
        before = model(src_ids, tgt_ids)
        changed = tgt_ids.clone()
        changed[:, 4:] = 5
        after = model(src_ids, changed)
    assert "causal_mask" not in trace
    assert torch.equal(before[:, :4], after[:, :4])
    assert not torch.allclose(before[:, 4:], after[:, 4:])


def test_a_gate_that_is_shut_at_one_position_lets_nothing_through_to_later_ones(small_model, src_ids, tgt_ids):
    """An edit of the gate acts on what follows."""

    def shut(gate: torch.Tensor) -> torch.Tensor:
        gate[:, 3] = 0.0
        return gate

    model = small_model(autoregressive_sublayer="ssru", n_decoder_layers=1)
    changed = tgt_ids.clone()
    changed[:, :3] = 4
    cells = []
    for ids in (tgt_ids, changed):
        with torch.no_grad(), tracing(model, {"decoder.layers.0.ssru.forget_gate": shut}) as trace:
            model(src_ids, ids)
        cells.append(trace["decoder.layers.0.ssru.cell"])
    assert torch.equal(cells[0][:, 3:], cells[1][:, 3:])
    assert not torch.allclose(cells[0][:, :3], cells[1][:, :3])


def test_the_state_is_kept_in_float32_under_bfloat16(small_model, src_ids, tgt_ids):
    model = small_model(autoregressive_sublayer="ssru")
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16), tracing(model) as trace:
        model(src_ids, tgt_ids)
    assert trace["decoder.layers.0.ssru.forget_gate"].dtype == torch.bfloat16
    assert trace["decoder.layers.0.ssru.cell"].dtype == torch.float32


def test_the_cache_of_another_kind_is_refused(small_model, src_ids, tgt_ids):
    model: Transformer = small_model(autoregressive_sublayer="ssru")
    cache = small_model().new_cache()
    with pytest.raises(InputError, match=r"cache: found 2 layers with self_attention, expected 2 with ssru, as the"):
        model.decode(tgt_ids[:, :1], *model.encode(src_ids), cache)
