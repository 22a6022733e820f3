"""What is demanded is there, what is banned is not, and sources of which nothing is demanded do not notice."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_search import BOS, EOS, PAD, SENTENCES, assert_same, beam_search, everything, occurs, padded

from glassformer.decoding import Constraints, DecoderSteps, Output, SearchJob
from glassformer.decoding.search.constraints import allocate_banks, bank_of, contains, follow, matched_prefix
from glassformer.decoding.search.search import search
from glassformer.errors import InputError
from glassformer.settings import DecodeConfig

LIMITS = [12, 12, 12, 12, 12]
CONSTRAINTS = [
    Constraints(required=((9, 8, 10), (4,))),
    Constraints(),
    Constraints(required=((3, 3), (3, 5))),
    Constraints(required=((10,),), banned=((7,), (10, 10))),
    Constraints(prefix=(6, 8), required=((8, 4),)),
]

phrases = st.lists(st.lists(st.integers(3, 5), min_size=1, max_size=3).map(tuple), min_size=1, max_size=3)


@given(ids=st.lists(st.integers(3, 5), max_size=7), phrases=phrases)
def test_how_far_a_hypothesis_is_follows_from_its_ids(ids, phrases):
    stacked = torch.tensor([[[*phrase, *[PAD] * (3 - len(phrase))] for phrase in [*phrases, ()]]])
    row = torch.tensor([ids], dtype=torch.int64)
    there = [occurs(phrase, ids) for phrase in phrases]
    assert contains(row, stacked, stacked, PAD)[0].tolist() == [*there, True]
    midst = [
        max(length for length in range(len(phrase) + 1) if length == 0 or tuple(ids[-length:]) == phrase[:length])
        for phrase in phrases
    ]
    assert matched_prefix(row, stacked, PAD)[0].tolist() == [*midst, 0]
    whole = sum(len(phrase) for phrase, done in zip(phrases, there, strict=True) if done)
    further = max((length for length, done in zip(midst, there, strict=True) if not done), default=0)
    assert bank_of(row, stacked, stacked, PAD).tolist() == [whole + further]


def test_an_output_begins_with_a_phrase_in_another_form():
    phrase, start = torch.tensor([[[8, 9, 7]]]), torch.tensor([[[3, 4, 9, 7]]])
    begun = {
        (): (0, 3),
        (3,): (1, 4),
        (3, 4): (2, 9),
        (3, 4, 9): (2, 7),
        (5,): (0, 8),
        (5, 8): (1, 9),
        (4, 9): (0, 8),
    }
    for ids, (length, further) in begun.items():
        row = torch.tensor([ids], dtype=torch.int64)
        assert [one.tolist() for one in follow(row, phrase, start, PAD)] == [[[length]], [[further]]], ids
        assert not contains(row, phrase, start, PAD).any()
    for ids in ((3, 4, 9, 7), (3, 4, 9, 7, 5), (5, 8, 9, 7)):
        assert contains(torch.tensor([ids]), phrase, start, PAD).all()
        assert Constraints(required=((8, 9, 7),), starts=((3, 4, 9, 7),)).unmet(ids) == ()
    assert not contains(torch.tensor([[5, 3, 4, 9, 7]]), phrase, start, PAD).any()


def test_places_are_given_to_banks_by_hand():
    # Beam 4 and banks 0 to 2: one place each. The furthest bank's best comes first, the rest goes by key.
    keys = torch.tensor([[-1.0, -2.0, -3.0, -4.0, -9.0, -9.5, -torch.inf]])
    banks = torch.tensor([[0, 0, 1, 0, 1, 2, 2]])
    assert allocate_banks(keys, banks, torch.tensor([3]), 4)[0].tolist() == [5, 0, 2, 1, 3, 4, 6]
    assert allocate_banks(keys, banks * 0, torch.tensor([1]), 4)[0].tolist() == [0, 1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("beam", [1, 2, 5])
def test_every_output_holds_what_is_required(make_model, positions, beam):
    for seed in range(3):
        model = make_model(seed=seed, positions=positions, bias={EOS: 0.7})
        options = DecodeConfig(beam=beam, n_best=beam)
        found = beam_search(model, padded(SENTENCES), LIMITS, options, CONSTRAINTS)
        for constraints, candidates in zip(CONSTRAINTS, found, strict=True):
            assert not candidates[0].unmet
            for one in candidates:
                assert one.unmet == tuple(phrase for phrase in constraints.required if not occurs(phrase, one.ids))
                assert one.truncated or not one.unmet
                assert not any(occurs(phrase, one.ids) for phrase in constraints.banned)
                assert tuple(one.ids[: len(constraints.prefix)]) == constraints.prefix


@settings(max_examples=25, deadline=None)
@given(
    required=st.lists(st.lists(st.integers(3, 10), min_size=1, max_size=3).map(tuple), min_size=1, max_size=4),
    prefix=st.lists(st.integers(3, 10), max_size=3).map(tuple),
    beam=st.integers(1, 12),
)
def test_as_many_ids_as_are_required_are_room_enough(make_model, required, prefix, beam):
    model = make_model(bias={EOS: 2.0})
    constraints = Constraints(required=tuple(required), prefix=prefix)
    limit = min(len(prefix) + sum(map(len, dict.fromkeys(required))), 20)
    options = DecodeConfig(beam=beam)
    ((best,),) = beam_search(model, padded(SENTENCES[:1]), [limit], options, [constraints])
    assert not best.unmet
    assert all(occurs(phrase, best.ids) for phrase in required)


def test_what_cannot_be_met_in_time_is_cut_short_and_flagged(make_model):
    model = make_model(bias={EOS: 3.0})
    constraints = [Constraints(required=((4, 5), (6, 7, 8)))]
    for limit in range(1, 5):
        ((best,),) = beam_search(model, padded(SENTENCES[:1]), [limit], DecodeConfig(beam=4), constraints)
        assert best.truncated
        assert len(best.ids) == limit
        assert (6, 7, 8) in best.unmet or (4, 5) in best.unmet
    ((longer, *_),) = beam_search(
        model, padded(SENTENCES[:1]), [2], DecodeConfig(beam=1), [Constraints(prefix=(5, 6, 7))]
    )
    assert (longer.ids, longer.truncated) == ([5, 6], True), "a prefix may be longer than the limit"


def test_a_beam_as_wide_as_the_space_finds_the_best_that_holds_it(make_model):
    model = make_model(vocab=6, bias={EOS: 1.0})
    src = [4, 5, EOS]
    ended, _ = everything(model, src, 4)
    for constraints in (
        Constraints(required=((5, 3), (3,))),
        Constraints(required=((4, 4), (4, 5)), banned=((3,),)),
        Constraints(prefix=(5, 5), banned=((5, 4),)),
    ):
        expected = [
            Output(
                list(ids), log_prob, log_prob / DecodeConfig(length_penalty=0.6).penalty(len(ids)), truncated=False
            )
            for ids, log_prob in ended
            if all(occurs(phrase, ids) for phrase in constraints.required)
            and not any(occurs(phrase, ids) for phrase in constraints.banned)
            and ids[: len(constraints.prefix)] == constraints.prefix
        ]
        expected = sorted(expected, key=lambda one: -one.score)
        count = min(6, len(expected))
        found = beam_search(model, padded([src]), [4], DecodeConfig(beam=100, n_best=count), [constraints])[0]
        assert_same(found, expected[:count])


def test_a_batch_is_its_sentences_alone_and_plain_ones_do_not_notice(make_model):
    model = make_model(bias={EOS: 0.7})
    options = DecodeConfig(beam=4, n_best=3)
    together = beam_search(model, padded(SENTENCES), LIMITS, options, CONSTRAINTS)
    for src, limit, constraints, found in zip(SENTENCES, LIMITS, CONSTRAINTS, together, strict=True):
        assert_same(found, beam_search(model, padded([src]), [limit], options, [constraints])[0])
    assert together[1] == beam_search(model, padded(SENTENCES), LIMITS, options)[1]


def test_every_rule_at_once(make_model):
    model = make_model(bias={EOS: 0.7})
    options = DecodeConfig(
        beam=6, n_best=3, no_repeat_ngram=2, min_length=4, repetition_penalty=1.5, coverage_penalty=0.3
    )
    for constraints, found in zip(
        CONSTRAINTS, beam_search(model, padded(SENTENCES), LIMITS, options, CONSTRAINTS), strict=True
    ):
        for one in found:
            assert one.truncated or (not one.unmet and len(one.ids) > 4)
            assert not any(occurs(phrase, one.ids) for phrase in constraints.banned)
            pairs = list(zip(one.ids, one.ids[1:], strict=False))
            assert len(set(pairs)) == len(pairs)


def test_samples_begin_as_demanded_and_hold_nothing_banned(make_model):
    model = make_model(bias={EOS: 0.3})
    options = DecodeConfig(sample=True, n_best=30, temperature=1.5)
    constraints = [Constraints(prefix=(6, 6), banned=((6, 6), (4,), (5, 7))), *[Constraints()] * 4]
    steps = DecoderSteps(model, padded(SENTENCES), options)
    found = search(steps, SearchJob(SENTENCES, LIMITS, options, constraints=constraints))
    free = search(DecoderSteps(model, padded(SENTENCES), options), SearchJob(SENTENCES, LIMITS, options))
    ids_of = [[[one.ids for one in row] for row in rows[1:]] for rows in (found, free)]
    assert ids_of[0] == ids_of[1], "the others draw as they would"
    assert len({tuple(one.ids) for one in found[0]}) > 10
    for one in found[0]:
        assert one.ids[:2] == [6, 6], "a prefix goes before what is banned"
        assert not any(occurs(phrase, one.ids[2:]) for phrase in constraints[0].banned)
        logits = model(torch.tensor(SENTENCES[:1]), torch.tensor([[BOS, *one.ids[:-1]]]))[0]
        own = logits.log_softmax(-1)[range(len(one.ids)), one.ids].sum()
        assert one.log_prob == pytest.approx(own.item(), abs=1e-4)


@pytest.mark.parametrize(
    ("constraints", "message"),
    [
        ([Constraints(prefix=(EOS,))], r"constraints\[0\].prefix: found id 2, expected ids below 11 other than"),
        ([Constraints(required=((5, 11),))], r"constraints\[0\].required: found id 11"),
        ([Constraints(banned=((),))], r"constraints\[0\].banned: found an empty sequence"),
        ([Constraints(), Constraints(prefix=(3,))], "constraints: found 2 for 1 sources, expected one for each"),
    ],
)
def test_constraints_that_no_output_can_meet_are_refused(make_model, constraints, message):
    with pytest.raises(InputError, match=message):
        beam_search(make_model(), padded(SENTENCES[:1]), [5], DecodeConfig(), constraints)


def test_a_draw_cannot_be_led_to_what_is_required(make_model):
    options = DecodeConfig(sample=True)
    steps = DecoderSteps(make_model(), padded(SENTENCES[:1]), options)
    with pytest.raises(InputError, match=r"constraints\[0\].required: found 1 with sampling"):
        search(steps, SearchJob(SENTENCES[:1], [5], options, constraints=[Constraints(required=((4,),))]))
