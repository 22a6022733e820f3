"""What translating and training compute, untraced, is held to the plain pass: what is wrong there alone is found."""

import re

import pytest
import torch
from three_sentences import SOURCES, TARGETS

from glassformer.decoding.search import greedy
from glassformer.explain.compare.passes import Mode
from glassformer.explain.compare.production import add_halves
from glassformer.explain.compare.runs import ModelPass, diff_sides
from glassformer.explain.verify import check_agreement, prove
from glassformer.explain.walks import walk
from glassformer.model import attention
from glassformer.model.cache import BeamCache
from glassformer.model.masks import Mask
from glassformer.settings import DecodeConfig, RunConfig
from glassformer.training.loop.strategy import ParallelStrategy
from glassformer.training.objective import fused_loss, loss


@pytest.fixture(scope="module")
def forced(translator):
    return walk(translator, SOURCES, TARGETS)


def siblings_see_each_other(monkeypatch):
    monkeypatch.setattr(torch, "eye", lambda n, dtype, device: torch.ones(n, n, dtype=dtype, device=device))


def lineage_is_the_first_hypothesis(monkeypatch):
    reorder = BeamCache.reorder
    monkeypatch.setattr(BeamCache, "reorder", lambda self, parents: reorder(self, torch.zeros_like(parents)))


def what_a_maker_knows_of_a_mask_is_dropped(monkeypatch):
    monkeypatch.setattr(Mask, "from_known", classmethod(lambda cls, visible, *, hides: cls(visible, hides=False)))


def one_visible_key_is_enough(monkeypatch):
    from_visible = Mask.from_visible.__func__

    def untraced(cls, visible):
        found = from_visible(cls, visible)
        return found if found.has_empty_rows else found._replace(hides=False)

    monkeypatch.setattr(Mask, "from_visible", classmethod(untraced))


def greedy_takes_the_second_best(monkeypatch):
    top_k = greedy.top_k
    monkeypatch.setattr(greedy, "top_k", lambda *args: tuple(part.flip(1) for part in top_k(*args)))


def fused_gradients_are_one_per_cent_too_large(monkeypatch):
    original = fused_loss.p_minus_q
    monkeypatch.setattr(fused_loss, "p_minus_q", lambda *args: original(*args).mul_(1.01))


def smoothing_is_dropped_from_the_fused_loss(monkeypatch):
    original = fused_loss.token_losses
    monkeypatch.setattr(fused_loss, "token_losses", lambda logits, p, ids, _: original(logits, p, ids, 0.0))


def gradients_lack_the_smoothing(monkeypatch):
    original = loss.p_minus_q
    monkeypatch.setattr(fused_loss, "p_minus_q", lambda p, ids, _: original(p, ids, 0.0))


def packed_padding_keeps_a_gradient(monkeypatch):
    monkeypatch.setattr(torch.Tensor, "index_fill_", lambda self, *_: self)


def an_update_forgets_all_but_its_last_batch(monkeypatch):
    backward = ParallelStrategy.backward

    def forgetful(self, *of_batch):
        self.model.zero_grad()
        return backward(self, *of_batch)

    monkeypatch.setattr(ParallelStrategy, "backward", forgetful)


def test_the_kernel_of_gpus_is_run_as_training_runs_it(forced, translator, monkeypatch):
    batch = forced.sentences.batch
    sides = ModelPass(translator.model), ModelPass(translator.model, Mode.FUSED)
    assert diff_sides(*sides, batch.src_ids, batch.tgt_in_ids).agrees
    original = attention.fused_attention
    untraced = lambda q, k, v, mask: original(q, k, v, mask._replace(hides=mask.has_empty_rows))  # noqa: E731
    monkeypatch.setattr(attention, "fused_attention", untraced)
    found = diff_sides(*sides, batch.src_ids, batch.tgt_in_ids)
    assert found.first.address == "loss.mean"


FAULTS = {
    siblings_see_each_other: (Mode.TRANSLATED, "search.next_log_probs"),
    lineage_is_the_first_hypothesis: (Mode.TRANSLATED, "search.next_log_probs"),
    what_a_maker_knows_of_a_mask_is_dropped: (Mode.TRANSLATED, "search.next_log_probs"),
    one_visible_key_is_enough: (Mode.TRANSLATED, "search.next_log_probs"),
    greedy_takes_the_second_best: (Mode.TRANSLATED, "search.greedy.result_scores"),
    fused_gradients_are_one_per_cent_too_large: (Mode.PACKED, "src_embedding.tokens.weight.gradient"),
    smoothing_is_dropped_from_the_fused_loss: (Mode.PACKED, "loss.mean"),
    gradients_lack_the_smoothing: (Mode.PACKED, "src_embedding.tokens.weight.gradient"),
    an_update_forgets_all_but_its_last_batch: (Mode.PACKED, "src_embedding.tokens.weight.gradient"),
    packed_padding_keeps_a_gradient: (Mode.PACKED, "src_embedding.tokens.weight.gradient"),
}


@pytest.mark.parametrize(
    "fault",
    [fault if place % 4 == 0 else pytest.param(fault, marks=pytest.mark.slow) for place, fault in enumerate(FAULTS)],
    ids=lambda fault: fault.__name__,
)
def test_what_is_wrong_without_a_trace_is_found_by_both_commands(fault, forced, translator, monkeypatch):
    way, address = FAULTS[fault]
    fault(monkeypatch)
    agreement = check_agreement(forced, translator.model, translator.config)
    assert not agreement.holds
    found = agreement.translated if way == Mode.TRANSLATED else agreement.trained
    assert found.first.address == address
    assert any(line.startswith("They first differ at") for line in agreement.lines())
    batch, config = forced.sentences.batch, RunConfig(decode=translator.config)
    sides = ModelPass(translator.model), ModelPass(translator.model, way)
    assert not diff_sides(*sides, batch.src_ids, batch.tgt_in_ids, config=config).agrees
    assert not diff_sides(*sides[::-1], batch.src_ids, batch.tgt_in_ids, config=config).agrees


def test_what_is_right_agrees_and_the_last_line_of_the_proof_says_how_well(forced, translator):
    proof = prove(forced, translator.model, translator.config)
    *_, last = proof.lines()
    agreement = proof.agreement
    assert agreement.tokens > 50
    said = re.fullmatch(
        rf"As translate computes it: {agreement.tokens:,} tokens, log-probabilities within (\S+), the same beam; as "
        r"training computes it: loss within (\S+), gradients within (\S+)\. All checks passed\.", last,
    )  # fmt: skip
    log_probs, loss, gradients = map(float, said.groups())
    assert 0 < log_probs < 1e-5
    assert 0 <= loss < 1e-6
    assert 0 < gradients < 1e-5
    addresses = {tap.address for tap in agreement.translated.taps}
    names = ("next_log_probs", "result_log_probs", "result_scores", "result_ended", "results")
    assert addresses == {f"search{kind}.{name}" for kind in ("", ".greedy") for name in names}
    weights = {f"{name}.gradient" for name, _ in translator.model.named_parameters()}
    assert {tap.address for tap in agreement.trained.taps} == {"loss.mean"} | weights


@pytest.mark.parametrize("options", [{"sample": True, "n_best": 2, "top_k": 5}, {"coverage_penalty": 0.3, "cache": False}, {"beam": 1}],
                  ids=str)  # fmt: skip
def test_every_kind_of_search_agrees(options, translator, forced):
    agreement = check_agreement(forced, translator.model, DecodeConfig(**options, max_length_b=4))
    assert agreement.holds, list(agreement.lines())


def test_the_first_halves_join_the_batch_each_with_its_end():
    assert add_halves([[5, 6, 7, 8, 2], [9, 2]]) == [[5, 6, 7, 8, 2], [9, 2], [5, 6, 2], [9, 2]]
