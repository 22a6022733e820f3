import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_search import BOS, EOS, PAD, SENTENCES, assert_same, beam_search, everything, next_log_probs, padded

from glassformer.decoding import Constraints, Output, SearchJob
from glassformer.decoding.search.beam import top_k, top_k_of_beams
from glassformer.decoding.search.job import SearchStoppedError, searching_while
from glassformer.decoding.search.search import result_tensors, search
from glassformer.decoding.search.steps import BeamSteps, DecoderSteps
from glassformer.errors import DivergedError
from glassformer.model import Transformer
from glassformer.settings import DecodeConfig
from glassformer.trace import tracing


def ranked(ended, cut, options: DecodeConfig) -> list[Output]:
    made = [
        Output(list(ids), log_prob, log_prob / options.penalty(len(ids)), truncated)
        for hypotheses, truncated in ((ended, False), (cut, True))
        for ids, log_prob in hypotheses
    ]
    cut_score = max((one.score for one in made if one.truncated), default=-math.inf)
    made = [replace(one, longer_was_cut=not one.truncated and cut_score > one.score) for one in made]
    return sorted(made, key=lambda one: (one.truncated, -one.score))[: options.n_best]


def plain_beam_search(model: Transformer, src: list[int], limit: int, options: DecodeConfig) -> list[Output]:
    """What ``beam_search`` promises, sentence by sentence, without cache and without an early end."""
    living, ended = [((), 0.0)], []
    for _ in range(limit):
        every = [
            ((*ids, token), log_prob + more)
            for (ids, log_prob), row in zip(
                living, next_log_probs(model, src, [ids for ids, _ in living]), strict=True
            )
            for token, more in enumerate(row)
            if more > -math.inf
        ]
        best = sorted(every, key=lambda one: -one[1])[: 2 * options.beam]
        ended += [one for one in best[: options.beam] if one[0][-1] == EOS]
        living = [one for one in best if one[0][-1] != EOS][: options.beam]
        if len(ended) >= options.beam:
            return ranked(ended, [], options)
    return ranked(ended, living, options)


def count_steps(model: Transformer, monkeypatch) -> list[int]:
    """The rows of each call of ``decode``, filled as the search goes on."""
    rows, decode = [], model.decode

    def counted(ids, *rest):
        rows.append(len(ids))
        return decode(ids, *rest)

    monkeypatch.setattr(model, "decode", counted)
    return rows


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
@pytest.mark.parametrize("eos_bias", [-1.0, 1.0])
def test_a_beam_as_wide_as_the_space_finds_the_best_there_is(make_model, alpha, eos_bias):
    model = make_model(vocab=6, bias={EOS: eos_bias})
    for src in ([4, 5, EOS], [3, 3, 5, 4, EOS]):
        ended, cut = everything(model, src, 4)
        assert (len(ended), len(cut)) == (40, 81)
        for n_best in (1, 3, 45):
            options = DecodeConfig(beam=100, n_best=n_best, length_penalty=alpha)
            found = beam_search(model, padded([src]), [4], options)[0]
            assert_same(found, ranked(ended, cut, options))


@pytest.mark.parametrize("n_best", [1, 3])
def test_a_complete_output_wins_and_says_if_the_limit_cut_a_better_one(make_model, n_best):
    flags = []
    for seed in range(6):
        model = make_model(seed=seed, bias={EOS: 1.0})
        options = DecodeConfig(beam=3, n_best=n_best, length_penalty=1.5)
        for src, limit, found in zip(
            SENTENCES, [3, 4, 2, 5, 3], beam_search(model, padded(SENTENCES), [3, 4, 2, 5, 3], options), strict=True
        ):
            expected = plain_beam_search(model, src, limit, options)
            assert_same(found, expected)
            assert [one.longer_was_cut for one in found] == [one.longer_was_cut for one in expected]
            flags += [one.longer_was_cut for one in found if not one.truncated]
    assert {True, False} == set(flags)


def test_equals_a_plain_loop_without_cache_or_early_end(make_model, positions):
    limits = [9, 1, 6, 11, 4]
    for seed, (beam, n_best, alpha) in enumerate([(2, 2, 0.0), (4, 1, 0.6), (3, 3, 1.5), (1, 1, 3.0)]):
        model = make_model(seed=seed, positions=positions, bias={EOS: 0.7})
        options = DecodeConfig(beam=beam, n_best=n_best, length_penalty=alpha)
        found = beam_search(model, padded(SENTENCES), limits, options)
        for src, limit, candidates in zip(SENTENCES, limits, found, strict=True):
            assert_same(candidates, plain_beam_search(model, src, limit, options))


@settings(max_examples=20, deadline=None)
@given(
    sentences=st.lists(st.lists(st.integers(3, 10), min_size=1, max_size=7), min_size=1, max_size=6),
    beam=st.integers(1, 5),
    more=st.integers(0, 3),
    data=st.data(),
)
def test_neighbours_order_and_padding_change_nothing(make_model, sentences, beam, more, data):
    model = make_model(bias={EOS: 0.7})
    sentences = [[*ids, EOS] for ids in sentences]
    limits = [data.draw(st.integers(1, 12)) for _ in sentences]
    options = DecodeConfig(beam=beam, n_best=data.draw(st.integers(1, beam)))
    order = data.draw(st.permutations(range(len(sentences))))
    together = beam_search(
        model, padded([sentences[place] for place in order], more), [limits[place] for place in order], options
    )
    for place, found in zip(order, together, strict=True):
        alone = beam_search(model, padded([sentences[place]]), [limits[place]], options)[0]
        assert_same(found, alone)


def test_a_search_that_finds_no_end_stops_at_its_limit(make_model):
    model = make_model(bias={EOS: -30.0})
    limits = [3, 17, 1, 8, 23]
    for beam in (1, 3):
        found = beam_search(model, padded(SENTENCES), limits, DecodeConfig(beam=beam, n_best=beam))
        for limit, candidates in zip(limits, found, strict=True):
            assert [(len(one.ids), one.truncated) for one in candidates] == [(limit, True)] * beam
    model = make_model(bias={EOS: -30.0})
    options = DecodeConfig(beam=2, n_best=2, early_stopping="never")
    for found, limit in zip(beam_search(model, padded(SENTENCES), [3, 1, 2, 3, 1], options), [3, 1, 2, 3, 1], strict=True):  # fmt: skip
        assert [len(one.ids) for one in found] == [limit, limit]


def test_padding_is_never_written_and_few_entries_are_enough(make_model):
    model = make_model(bias={PAD: 9.0, BOS: 9.0})
    for candidates in beam_search(model, padded(SENTENCES), [9] * len(SENTENCES), DecodeConfig(beam=3, n_best=3)):
        assert all(not {PAD, BOS} & set(one.ids) for one in candidates)
    # 4 entries: eos and one word. There are not 50 outputs of at most 3 ids, but 3 that end and 1 that is cut.
    model = make_model(vocab=4)
    found = beam_search(model, torch.tensor([[3, EOS]]), [3], DecodeConfig(beam=50, n_best=50))[0]
    assert [one.ids for one in found if one.truncated] == [[3, 3, 3]]
    assert sorted(one.ids for one in found if not one.truncated) == [[2], [3, 2], [3, 3, 2]]


def test_ends_early_when_nothing_better_can_come(make_model, monkeypatch):
    model = make_model(bias={EOS: 12.0})
    rows = count_steps(model, monkeypatch)
    beam_search(model, padded(SENTENCES), [20] * len(SENTENCES), DecodeConfig(beam=4))
    assert rows == [len(SENTENCES)]


def test_sentences_that_are_done_leave_the_batch(make_model, monkeypatch):
    model = make_model(bias={EOS: -30.0})
    rows = count_steps(model, monkeypatch)
    beam_search(model, padded(SENTENCES), [1, 2, 3, 4, 5], DecodeConfig(beam=4))
    assert rows == [5, 16, 12, 8, 4]


def test_equal_candidates_give_the_same_result_each_time(make_model):
    model = make_model()
    model.output_projection.linear.weight.zero_()
    options = DecodeConfig(beam=3, n_best=3)
    together = beam_search(model, padded(SENTENCES), [4] * len(SENTENCES), options)
    for src, found in zip(SENTENCES, together, strict=True):
        assert_same(found, beam_search(model, padded([src]), [4], options)[0])


def test_logits_that_are_no_numbers_are_told(make_model):
    model = make_model()
    model.output_projection.linear.weight.fill_(math.nan)
    with pytest.raises(DivergedError, match="not finite"):
        beam_search(model, padded(SENTENCES), [4] * len(SENTENCES), DecodeConfig())


def test_length_penalty_by_hand():
    # ((5 + 7) / 6)^0.6 = 2^0.6; one id is not penalised; alpha 0 penalises nothing.
    assert DecodeConfig(length_penalty=0.6).penalty(7) == pytest.approx(1.5157165665)
    assert DecodeConfig(length_penalty=0.6).penalty(1) == 1.0
    assert DecodeConfig(length_penalty=0.0).penalty(99) == 1.0
    assert DecodeConfig(length_penalty=0.5, length_norm="power").penalty(9) == 3.0
    torch.testing.assert_close(DecodeConfig().penalty(torch.tensor([1.0, 7.0])), torch.tensor([1.0, 1.5157165665]))


@pytest.mark.parametrize("early_stopping", DecodeConfig.choices("early_stopping"))
def test_with_beam_1_the_first_end_is_the_end_however_poor_its_coverage(make_model, early_stopping):
    model = make_model(bias={EOS: 0.7})
    options = DecodeConfig(beam=1, coverage_penalty=5.0, early_stopping=early_stopping)
    plain = beam_search(model, padded(SENTENCES), [9] * 5, DecodeConfig(beam=1))
    found = beam_search(model, padded(SENTENCES), [9] * 5, options)
    assert [[one.ids for one in of_source] for of_source in found] == [[one.ids for one in each] for each in plain]


def test_an_end_that_is_impossible_is_none_and_slots_have_attention_of_their_own(make_model):
    """Of a prefix, all other ids are impossible; a wide beam takes some of them, and the end is among these."""
    prefix = (3, 4, 4, 3, 4, 3, 3, 4)
    model, constraints = make_model(vocab=5, src_vocab=11), [Constraints(prefix=prefix)] * 5
    found = beam_search(model, padded(SENTENCES), [12] * 5, DecodeConfig(beam=5), constraints)
    assert all(tuple(of_source[0].ids[:8]) == prefix for of_source in found)
    model, ids = make_model(), torch.full((5,), BOS)
    steps = BeamSteps(model, padded(SENTENCES), DecodeConfig(coverage_penalty=0.1))
    rows = DecoderSteps(model, padded(SENTENCES), DecodeConfig(coverage_penalty=0.1, cache=False))
    steps.next_log_probs(ids)
    rows.next_log_probs(ids)
    torch.testing.assert_close(steps.attention(), rows.attention())


@pytest.mark.parametrize("sample", [False, True])
def test_a_trace_holds_what_was_demanded_and_who_was_done(make_model, sample):
    model, banned = make_model(bias={EOS: 0.7}), Constraints(banned=((3, 4),), prefix=(7,))
    options = DecodeConfig(beam=1 if sample else 2, sample=sample)
    job = SearchJob(SENTENCES, [4] * 5, options, constraints=[banned] * 5)
    with torch.no_grad(), tracing(model) as trace:
        steps = DecoderSteps(model, padded(SENTENCES), options)
        search(steps, job)
    assert trace["search.prefix_ids"].tolist() == [[7]] * 5
    assert trace["search.banned_ids"].tolist() == [[[3, 4]]] * 5
    addresses = [step.address for step in trace]
    assert addresses.count("search.done") == addresses.count("search.next_log_probs") > 0


def test_a_place_without_an_output_has_padding_and_did_not_end():
    one = Output([5, EOS], -1.0, -0.5, truncated=False)
    found = result_tensors([[one, replace(one, ids=[6], truncated=True)], [one]], PAD, torch.device("cpu"))
    assert found["result_ended"].tolist() == [[True, False], [True, False]]
    assert found["results"].tolist() == [[[5, EOS], [6, PAD]], [[5, EOS], [PAD, PAD]]]
    assert found["result_scores"][1, 1] == found["result_log_probs"][1, 1] == -math.inf


@pytest.mark.parametrize("count", [1, 2, 7, 10])
@pytest.mark.parametrize("n", [5, 64, 777, 6400, 6463])
def test_they_are_those_that_topk_finds(n, count):
    values = torch.randn(13, n, generator=torch.Generator().manual_seed(n))
    values[3, : n // 2] = -math.inf
    found, places = top_k(values, count)
    expected = values.topk(min(count, n), dim=1)
    assert torch.equal(found, expected.values)
    assert torch.equal(values.gather(1, places), found)
    assert all(len(set(row)) == len(row) for row in places.tolist())


def test_the_last_numbers_behind_whole_blocks_count_too():
    values = torch.zeros(2, 64 * 30 + 5)
    values[0, -1], values[1, -5] = 3.0, 2.0
    found, places = top_k(values, 3)
    assert found[:, 0].tolist() == [3.0, 2.0]
    assert places[:, 0].tolist() == [64 * 30 + 4, 64 * 30]


@pytest.mark.parametrize("vocab", [4, 3000])
def test_of_beams_they_are_the_greatest_sums(vocab):
    generator = torch.Generator().manual_seed(vocab)
    ranking = torch.randn(5, 3, generator=generator)
    ranking[2, 1:] = -math.inf
    log_probs = torch.randn(5, 3, vocab, generator=generator).log_softmax(-1)
    places = top_k_of_beams(ranking, log_probs, 6)
    sums = (ranking[:, :, None] + log_probs).flatten(1)
    assert torch.equal(sums.gather(1, places), sums.topk(6, dim=1).values)


@torch.no_grad()
@pytest.mark.parametrize("kind", [BeamSteps, DecoderSteps])
@pytest.mark.parametrize("options", [DecodeConfig(beam=1), DecodeConfig(beam=2), DecodeConfig(sample=True)])
def test_a_search_asks_before_each_step_whether_it_is_wanted(make_model, kind, options):
    if kind is BeamSteps and options.sample:
        pytest.skip("samples have a row each")
    answers = [True, False]
    steps = kind(make_model(), padded(SENTENCES))
    with searching_while(lambda: answers.pop(0)), pytest.raises(SearchStoppedError):
        search(steps, SearchJob(SENTENCES, [9] * len(SENTENCES), options))
    assert not answers
