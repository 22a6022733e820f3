"""When a training stops, and its cooldown before that."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from recorded import Lines

from glassformer.errors import ConfigError, RunError, TextError
from glassformer.settings import RunConfig, TrainConfig
from glassformer.training.loop.checkpointing import TrainState
from glassformer.training.loop.schedule import cancel_stale_cooldown, cooldown_factor, learning_rate, start_cooldown
from glassformer.training.loop.stopping import fraction_done, stop_reason
from glassformer.training.request.arguments import TrainRequest
from glassformer.training.request.data import FileSource
from glassformer.training.train import train

Corpus = tuple[Path, Path]
MakeConfig = Callable[..., RunConfig]


def start(settings: TrainConfig, clock_s: float = 0.0, **counters: int) -> TrainState:
    return start_cooldown(settings, TrainState(**counters), clock_s)


def test_a_cooldown_takes_the_last_quarter_of_updates_or_minutes():
    settings = TrainConfig(max_updates=4000, cooldown=0.25)
    assert start(settings, update=2999) == TrainState(update=2999)
    state = start(settings, update=3000)
    assert (state.cooldown_from, state.cooldown_to) == (3000, 4000)
    factors = [cooldown_factor(state, update) for update in range(1, 4001)]
    assert factors[:3000] == [1.0] * 3000
    assert [before - after for before, after in pairwise(factors[2999:])] == pytest.approx([1 / 1001] * 1000)
    assert factors[-1] == pytest.approx(1 / 1001)
    assert cooldown_factor(state, 4001) > 0  # one step more, as in a walk through a finished run
    settings = TrainConfig(max_minutes=20, cooldown=0.25)
    assert start(settings, 899, update=600).cooldown_to == 0
    state = start(settings, 900, update=600)
    assert (state.cooldown_from, state.cooldown_to, state.cooldown_cause) == (600, 800, "train.max_minutes = 20")
    assert start_cooldown(settings, replace(state, update=700), 1190) == replace(state, update=700)
    assert stop_reason(settings, replace(state, update=799), 1190) is None
    assert "train.max_minutes = 20" in str(stop_reason(settings, replace(state, update=800), 1190))
    assert stop_reason(settings, replace(state, update=799), 1200) == "reached train.max_minutes = 20"


def test_the_nearest_limit_decides_and_the_fraction_done_counts_the_cooldown():
    settings = TrainConfig(max_minutes=20, max_updates=700, cooldown=0.25)
    assert start(settings, 600, update=525).cooldown_to == 700
    assert start(replace(settings, max_updates=10_000), 900, update=525).cooldown_to == 700
    settings = TrainConfig(patience=3, cooldown=0.25)
    state = start(settings, update=900, stale_validations=3)
    assert fraction_done(settings, state) == pytest.approx(0.75)
    with pytest.raises(ConfigError, match=r"train\.cooldown: found 1\.5"):
        RunConfig.from_mapping({"train": {"cooldown": 1.5}})


def test_a_quarter_of_the_whole_follows_when_patience_has_run_out() -> None:
    settings = TrainConfig(patience=3, cooldown=0.25)
    assert start(settings, update=900, stale_validations=2).cooldown_to == 0
    state = start(settings, update=900, stale_validations=3)
    assert (state.cooldown_to, state.cooldown_cause) == (1200, "train.patience = 3")
    assert stop_reason(settings, replace(state, update=1199, stale_validations=9), 0) is None
    assert "train.patience = 3" in str(stop_reason(settings, replace(state, update=1200), 0))
    assert start(replace(settings, max_updates=1000), update=900, stale_validations=3).cooldown_to == 1000
    assert start(settings, update=1, stale_validations=3).cooldown_to == 2


def test_without_a_cooldown_patience_ends_and_one_without_its_limit_is_cancelled():
    settings, state = TrainConfig(patience=3, cooldown=0), TrainState(update=900, stale_validations=3)
    assert start_cooldown(settings, state, 0) == state
    assert "train.patience" in str(stop_reason(settings, state, 0))
    settings = TrainConfig(max_minutes=20, cooldown=0.25)
    state = start(settings, 900, update=600)
    assert cancel_stale_cooldown(settings, state) == state
    assert cancel_stale_cooldown(replace(settings, max_minutes=40), state) == TrainState(update=600)


def rates(config: RunConfig, lines: Lines) -> list[float]:
    """What the cooldown left of each update's rate."""
    return [
        row.learning_rate / learning_rate(row.update, config.train, config.model.d_model) for row in lines.updates
    ]


def test_a_training_cools_down_and_logs_it(corpus, small_config, lines, tmp_path):
    config = small_config(max_updates=20, cooldown=0.25)
    train(TrainRequest(tmp_path / "run", FileSource(*corpus), config), lines)
    assert rates(config, lines) == pytest.approx([1.0] * 15 + [5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6])
    (said,) = [line for line in lines.lines if line.startswith("The cooldown begins")]
    assert "train.max_updates = 20: over the next 5 updates" in said


@pytest.mark.slow
def test_the_rate_goes_back_to_its_curve_if_the_limit_is_raised(corpus, small_config, lines, tmp_path):
    source = FileSource(*corpus)
    train(TrainRequest(tmp_path / "run", source, small_config(max_updates=12, cooldown=0.25)), Lines())
    config = small_config(max_updates=20, cooldown=0.25)
    train(TrainRequest(tmp_path / "run", source, config), lines)
    assert rates(config, lines)[:3] == [1.0] * 3
    assert rates(config, lines)[-1] == pytest.approx(1 / 6)
    assert any("goes back to its curve" in line for line in lines.lines)


@pytest.mark.slow
def test_a_run_that_has_ended_goes_on_only_if_a_new_limit_is_named(corpus, small_config, trained, lines):
    source = FileSource(*corpus)
    # The same command ends again at once.
    assert train(TrainRequest(trained, source, small_config()), lines).updates == 20
    with pytest.raises(RunError, match=r"this run has ended, after 20 updates and 0 minutes; expected a new limit"):
        train(TrainRequest(trained, source, small_config(max_updates=TrainConfig().max_updates)), lines)
    more = FileSource(*(trained.parent / name for name in ("more.src", "more.tgt")))
    for own, other in zip(corpus, (more.src, more.tgt), strict=True):
        other.write_text(own.read_text() + "abc\n")
    with pytest.raises(RunError, match=r"this run has ended, .* such as --max-updates 40, or another --run"):
        train(TrainRequest(trained, more, small_config(), force=True), lines)  # it would learn nothing of it
    assert train(TrainRequest(trained, source, small_config(max_updates=25)), lines).updates == 25


@pytest.mark.slow
def test_few_pairs_are_warned_of_and_two_are_refused(small_config: MakeConfig, tmp_path: Path, lines: Lines) -> None:
    for count in (2, 40):
        (tmp_path / f"{count}.tsv").write_text("".join(f"word{n}\tWort{n}\n" for n in range(count)))
    with pytest.raises(
        TextError, match=r"holds 1 usable pair, not counting the validation text, expected at least 3"
    ):
        train(TrainRequest(tmp_path / "two", FileSource(tmp_path / "2.tsv"), small_config()), lines)
    both = FileSource(tmp_path / "2.tsv", valid_src=tmp_path / "40.tsv")
    with pytest.raises(TextError, match=r"holds 2 usable pairs, not counting"):
        train(TrainRequest(tmp_path / "both", both, small_config()), lines)
    train(TrainRequest(tmp_path / "forty", FileSource(tmp_path / "40.tsv"), small_config(max_updates=2)), lines)
    assert any(line.startswith("Warning: 38 pairs are few:") for line in lines.lines)


def test_a_remaining_time_that_patience_may_cut_says_at_most(corpus, small_config, tmp_path, lines):
    train(TrainRequest(tmp_path / "run", FileSource(*corpus), small_config()), lines)
    assert "left at most 0:" in lines.updates[0].line()
    assert "at most" not in lines.updates[-1].line()  # in the cooldown the last update is known


def test_both_schedules_are_their_formulas():
    config = TrainConfig(schedule="noam", warmup=4000)
    for update in (1, 100, 4000, 4001, 100_000):
        expected = 512**-0.5 * min(update**-0.5, update * 4000**-1.5)
        assert learning_rate(update, config, 512) == pytest.approx(expected)
    assert learning_rate(4000, config, 512) == pytest.approx(6.9877e-4, rel=1e-4)
    config = TrainConfig(schedule="inverse_sqrt", peak_rate=5e-3, warmup=2000)
    rates = [learning_rate(update, config, 128) for update in range(1, 8001)]
    assert max(rates) == rates[1999] == pytest.approx(5e-3)
    assert rates[999] == pytest.approx(2.5e-3)
    assert rates[7999] == pytest.approx(2.5e-3)
