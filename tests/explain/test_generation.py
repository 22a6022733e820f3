"""A generation as a reader sees it: each token with what was read, looked at, kept, ended or drawn."""

import re
from dataclasses import replace

import pytest
import torch
from three_sentences import SOURCES

from glassformer.errors import InputError
from glassformer.explain.recording import recording
from glassformer.explain.render.outline import outline
from glassformer.explain.render.walk_tables import TableLimits, step_lines, value_tables
from glassformer.explain.walks import walk_generation
from glassformer.settings import DecodeConfig

OPTIONS = {
    "greedy": DecodeConfig(beam=1, max_length_a=0, max_length_b=3),
    "beam": DecodeConfig(beam=3, n_best=3, max_length_a=0.5, max_length_b=1),
    "beam without cache": DecodeConfig(beam=3, n_best=2, max_length_a=0.5, max_length_b=1, cache=False),
    "wider than the vocabulary": DecodeConfig(beam=12, n_best=2, max_length_a=0, max_length_b=2),
    "rules": DecodeConfig(beam=3, n_best=2, no_repeat_ngram=1, min_length=2, max_length_a=0, max_length_b=3),
    "coverage": DecodeConfig(beam=4, n_best=3, coverage_penalty=0.2, max_length_a=0.5, max_length_b=1),
    "sampling with rules": DecodeConfig(sample=True, n_best=2, no_repeat_ngram=1, max_length_a=0, max_length_b=3),
    "sampling": DecodeConfig(sample=True, n_best=2, top_k=4, max_length_a=0, max_length_b=3),
    "sampling without cache": DecodeConfig(sample=True, top_p=0.5, max_length_a=0.5, max_length_b=1, cache=False),
}


@pytest.fixture(scope="module", params=OPTIONS)
def walked(request, translator):
    return walk_generation(translator, SOURCES, OPTIONS[request.param])


def tokens_of(walked) -> dict[str, tuple]:
    """The tables of each token's section."""
    sections = outline(walked, folds_layers=True, folds_repeats=True)
    return {section.title: section.tables for section in sections if section.title.startswith("Token")}


@pytest.mark.parametrize("width", [40, 120])
@pytest.mark.slow
def test_every_generation_is_printed_at_every_width(walked, printed, width):
    steps = tuple(step for step in walked.steps if step.address.startswith("search."))
    for text in (printed(walked, width), printed(replace(walked, steps=steps), width, values=True, sentence=1)):
        assert "\x1b" not in text
        assert all(f"{number}  {source}" in text for number, source in enumerate(SOURCES))
        if width >= 80:
            assert max(map(len, text.splitlines())) <= width


def test_every_step_has_something_to_say_of_every_sentence(walked):
    for step in walked.steps:
        for sentence in range(len(SOURCES)):
            tables = list(value_tables(walked, step, sentence, TableLimits()))
            assert tables
            assert all(table.rows or table.title or table.caption for table in tables)
            assert ("finished" in tables[0].caption) == ("batch" in step.axes and sentence not in step.sentences)


def test_tokens_after_the_first_are_folded_with_the_numbers_of_what_is_left_out(searched, printed):
    folded, whole = printed(searched), printed(searched, all_layers=True)
    assert "Token 0: Decoder layer 1\n  the same steps again" in folded
    assert "Token 1: Decoder layer 0" not in folded
    assert "Token 1: Decoder layer 0" in whole
    decoder = [step.number for step in searched.steps if step.stage == "Token 1: Decoder embedding"]
    line = re.search(r"\nToken 1\n  decoder, numbers (\d+) to (\d+); search, numbers (\d+) to (\d+)\n", folded)
    assert int(line[1]) == decoder[0]
    assert int(line[3]) == int(line[2]) + 1
    assert searched.steps[int(line[4]) - 1].address == "search.rows"
    assert all(text.count("Σ log P  P(next)  outcome") == 3 + 3 + 2 + 1 for text in (folded, whole))


def test_the_outputs_are_seen_to_grow(searched):
    """Each hypothesis that lives on is read again, with a token more, until its sentence is done."""
    tables = tokens_of(searched)
    alive = {}
    for number in range(4):
        title = f"Token {number}" if number else "Token 0: Search"
        for table in tables[title]:
            sentence = table.title[0]
            grown = [str(row[-1]).split() for row in table.rows]
            assert all(len(written) == number + 1 for written in grown)
            if number:
                assert {tuple(written[:-1]) for written in grown} <= alive[sentence]
            alive[sentence] = {
                tuple(written) for written, row in zip(grown, table.rows, strict=True) if "lives as" in row[2]
            }
            assert len(alive[sentence]) == 2


def test_a_table_says_what_the_search_did(searched):
    (table,) = tokens_of(searched)["Token 3"]
    assert table.title == "1  I am in love with you  (read: ], liebe)"
    assert table.headers == ("Σ log P", "P(next)", "outcome", "hypothesis")
    assert [row[2] for row in table.rows] == ["ends, score -4.861", "lives as 0", "lives as 1", "dropped"]
    assert table.rows[0][-1] == "] ] ] </s>"
    assert table.caption == "ended so far, by score: -3.889 ] ] </s>, -4.861 ] ] ] </s>; done"
    recorded = [step for step in searched.steps if step.address == "search.candidate_log_probs"][-1]
    assert [row[0] for row in table.rows] == recorded.value[0].tolist()
    assert searched.sentences.targets[1] == "] ]"


def test_what_ends_too_low_to_be_kept_is_told_from_what_is_dropped(translator):
    walked = walk_generation(translator, SOURCES, DecodeConfig(beam=12, n_best=1, max_length_a=0, max_length_b=3))
    outcomes = {row[2] for tables in tokens_of(walked).values() for table in tables for row in table.rows}
    assert {"ends, too low to keep", "dropped", "lives as 11"} <= outcomes


def test_a_table_says_what_rules_blocked(demanding):
    tables = tokens_of(demanding)
    first = tables["Token 0: Search"]
    headers = ("Σ log P", "after rules", "P(next)", "outcome", "hypothesis")
    assert all(table.headers == headers for found in tables.values() for table in found if table.headers)
    outcomes = {row[3].rpartition(" ")[0] for found in tables.values() for table in found for row in table.rows}
    assert "blocked by a" in outcomes
    assert {"lives as"} <= outcomes
    (alone, *blocked) = first[0].rows
    assert alone[3] == "lives as 0", "a prefix leaves one continuation"
    assert blocked
    assert all(row[3] == "blocked by a rule" for row in blocked)
    assert alone[-1] == demanding.sentences.vocab[5]


def test_a_draw_is_where_the_random_number_falls(sampled):
    tables = tokens_of(sampled)
    uniforms = [step.value for step in sampled.steps if step.address == "search.uniforms"]
    for shown, numbers in zip(filter(None, tables.values()), uniforms, strict=True):
        for table, uniform in zip(shown, numbers.tolist(), strict=True):
            assert table.headers == ("token", "P", "P filtered", "holds", "")
            (drawn,) = [row for row in table.rows if row[-1]]
            low, high = map(float, drawn[3].split(" to "))
            assert low - 1e-3 <= uniform <= high + 1e-3
            assert re.search(rf"now: (.* )?{re.escape(drawn[0])}(;|$)", table.caption)
            assert sum(row[2] for row in table.rows) == pytest.approx(1), "top-k 4 leaves four"
            assert all(row[1] < row[2] for row in table.rows)
    assert "ended" in tables["Token 2"][0].caption


def test_a_sentence_that_is_finished_is_told_of_with_a_word(searched, printed):
    steps = tuple(step for step in searched.steps if step.stage in ("Token 1: Output", "Token 3: Search"))
    first, second = (printed(replace(searched, steps=steps), values=True, sentence=row) for row in (0, 1))
    before, after = first.split("Token 3: Search")
    assert "sentence 0 is finished: it has no row here" in after
    assert "is finished" not in before
    assert second.count("sentence 1 is finished") == 1, "of the rows that are kept there is none left"
    assert "the first of the 2 rows of this sentence" in second


def test_steps_of_the_search_say_what_they_hold(searched):
    after = {(step.name, step.call): step for step in searched.steps if step.address.startswith("search.")}
    assert step_lines(after["candidate_ids", 1], 1)[2] == "  -3.423  </s>  after hypothesis 0"
    likeliest = step_lines(after["next_log_probs", 1], 1)
    assert likeliest[0] == "row 0"
    assert likeliest[6] == "row 1"
    assert step_lines(after["finished_scores", 3], 1) == ("  -3.889  ] ] </s>",), "without the padding behind it"
    assert step_lines(after["log_probs", 0], 0) == ("   0.000  (nothing yet)",)
    assert step_lines(after["candidate_ids", 3], 0) == ()
    ids = [step for step in searched.steps if step.address == "search.ids"]
    (nothing,) = value_tables(searched, ids[0], 0, TableLimits())
    assert (nothing.rows, nothing.caption) == ((), "nothing yet: (1, 0)")
    (table,) = value_tables(searched, ids[2], 2, TableLimits())
    assert [list(row[1:]) for row in table.rows] == ids[2].value[2].tolist()
    rows = [step for step in searched.steps if step.address == "search.rows"][-1]
    assert rows.value.numel() == 0
    assert "finished" in next(value_tables(searched, rows, 1, TableLimits())).caption
    step = next(step for step in searched.steps if step.address == "output_projection.probabilities")
    (table,) = value_tables(searched, step, 0, TableLimits(tokens=5))
    best = step.value[0, 0].topk(5)
    assert list(table.headers[1:]) == [searched.sentences.vocab[number] for number in best.indices.tolist()]
    assert list(table.rows[0][1:]) == best.values.tolist()
    assert table.caption == "showing the greatest 5 of 17 along vocab"


def test_a_choice_of_addresses_is_shown_as_chosen(translator, printed):
    walked = walk_generation(translator, SOURCES, OPTIONS["beam"], only="search.*")
    text = printed(walked)
    assert "numbers" not in text
    assert "Token 1: Search" in text
    assert "lives as 2" in text
    one = walk_generation(translator, SOURCES, OPTIONS["beam"], only="search.done")
    assert "lives as" not in printed(one), "the table needs more than was chosen"
    assert printed(one).count("Search") == len(one.steps)
    assert {step.address for step in one.trace} == {"search.done"}, "no more than was chosen is kept"


def test_coverage_many_samples_and_a_blank_source_are_shown(translator, printed):
    walked = walk_generation(translator, SOURCES, replace(OPTIONS["beam"], coverage_penalty=0.2))
    step = walked["search.covered"]
    for row, sentence in enumerate(step.sentences):
        assert walked.labels(step, row)[-1] == walked.sentences.src_tokens[sentence]
    options = DecodeConfig(sample=True, n_best=7, max_length_a=0, max_length_b=1)
    assert "showing 8 of 21 that were searched at this token" in printed(
        walk_generation(translator, SOURCES, options)
    )
    walked = walk_generation(translator, [" "], DecodeConfig(beam=1, max_length_a=0, max_length_b=2))
    assert "(read: <s>)" in printed(walked, 40)
    assert torch.equal(walked["search.sentences"].value, torch.tensor([0]))


def test_a_search_whose_steps_would_fill_the_memory_is_refused_as_it_grows(translator, monkeypatch):
    monkeypatch.setattr(recording, "MAX_NUMBERS", 20_000)
    with pytest.raises(InputError, match=r"found [1-9].* expected at most 20,000 of a whole search"):
        walk_generation(translator, SOURCES, DecodeConfig(beam=2, max_length_a=0, max_length_b=30, min_length=30))
    walk_generation(translator, SOURCES[:1], DecodeConfig(beam=1, max_length_a=0, max_length_b=1))
