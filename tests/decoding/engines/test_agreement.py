"""Two engines' outputs compared pair by pair."""

from glassformer.decoding.engines.agreement import compare_outputs
from glassformer.decoding.search.outputs import Output


def output(*ids: int, log_prob: float = -1.0, score: float = -0.5) -> Output:
    return Output(list(ids), log_prob, score, truncated=False)


def test_the_first_difference_and_ties_are_found_by_ids_or_by_their_tokens():
    first = [[output(5, 6, 2), output(5, 2)], [output(7, 2)]]
    second = [[output(5, 6, 2, log_prob=-1.25), output(5, 6, 2)], [output(8, 2, score=-0.6)]]
    pairs = [pair for of_source in compare_outputs(first, second) for pair in of_source]
    assert [pair.step for pair in pairs] == [None, 1, 0]
    assert [pair.gap for pair in pairs] == [0.25, 0.0, 0.0]
    assert [pair.is_tie(0.05) for pair in pairs] == [True, True, False]
    to_tokens = (lambda ids: list(map(chr, ids)), lambda ids: [chr(number - 1) for number in ids])
    ((pair,),) = compare_outputs([[output(65, 66)]], [[output(66, 68)]], to_tokens)
    assert (pair.step, pair.tokens) == (1, (["A", "B"], ["A", "C"]))
