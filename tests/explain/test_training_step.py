"""A training step as a reader sees it: the forward walk with gradients, the loss of each token, the update."""

from dataclasses import asdict, replace

import pytest
import torch
from three_sentences import SOURCES, TARGETS

from glassformer.checkpoint import save_checkpoint
from glassformer.explain.plain import number_text
from glassformer.explain.render.outline import gradient_line, outline
from glassformer.explain.render.walk_tables import TableLimits, value_tables
from glassformer.explain.verify import verify_walk
from glassformer.explain.walks import walk_training
from glassformer.run_directory import RunDirectory
from glassformer.settings import TrainConfig
from glassformer.training.loop.checkpointing import TrainState
from glassformer.training.loop.optimizer import OPTIMIZER
from glassformer.training.loop.schedule import learning_rate


def section_of(walked, title, **folds):
    sections = outline(walked, **{"folds_layers": True, "folds_repeats": True, **folds})
    return next(section for section in sections if section.title == title)


@pytest.mark.parametrize("width", [40, 80, 120])
def test_a_training_step_is_printed_at_every_width(trained, printed, width):
    text = printed(trained, width)
    assert "\x1b" not in text
    if width >= 80:
        assert max(map(len, text.splitlines())) <= width
    for stage in ("Text", "Encoder layer 0", "Encoder layers 1 to 2", "Decoder layer 1", "Output", "Loss", "Update"):
        assert f"\n{stage}\n" in text
    assert "src_embedding.dropout\n" in text


def test_each_forward_step_tells_the_norm_of_its_gradient_in_one_column(trained, printed, walked):
    text = printed(trained, 120)
    memory = trained["encoder.memory"]
    (line,) = [line for line in text.splitlines() if line.split()[:1] == [str(memory.number)]]
    assert line.rstrip().endswith(gradient_line(memory))
    assert gradient_line(memory) == f"‖∂‖ {number_text(memory.gradient.norm().item())}"
    mask = trained["src_mask"].number
    assert not any("‖∂‖" in line for line in text.splitlines() if line.split()[:1] == [str(mask)])
    assert "‖∂‖" not in printed(walked)
    places = {line.index("‖∂‖") for line in printed(trained, 120).splitlines() if "‖∂‖" in line}
    assert len(places) == 1


def test_the_loss_of_each_token_stands_beside_it(trained):
    *sentences, mean = section_of(trained, "Loss").tables
    assert [table.title for table in sentences] == [
        f"{number}  {source} → {target}" for number, source, target in zip((0, 1, 2), SOURCES, TARGETS, strict=True)
    ]
    loss, nll = trained["loss.per_token"].value, trained["loss.nll_per_token"].value
    for row, table in enumerate(sentences):
        tokens = [token for token in trained.sentences.tgt_out_tokens[row] if token != "<pad>"]
        assert [line[0] for line in table.rows] == tokens
        assert [line[2] for line in table.rows] == nll[row, : len(tokens)].tolist()
        assert [line[3] for line in table.rows] == loss[row, : len(tokens)].tolist()
        shares = torch.tensor([line[1] for line in table.rows])
        torch.testing.assert_close(-shares.log(), nll[row, : len(tokens)])
    assert mean.caption == f"mean over 18 tokens: {trained['loss.mean'].value.item():.4f}"


def test_long_targets_and_many_sentences_are_cut(translator):
    many = walk_training(translator, ["I love you"] * 9, ["ja " * 20] * 9, TrainConfig(warmup=1), only="loss.*")
    *sentences, mean = section_of(many, "Loss").tables
    assert [len(table.rows) for table in sentences] == [12] * 8
    assert {table.caption for table in sentences} == {"showing 12 of 21 tokens"}
    assert mean.caption.endswith("showing 8 of 9 sentences")


def test_each_weight_has_one_line_of_norms(trained, translator):
    section = section_of(trained, "Update")
    (table,) = section.tables
    names = ["gradient_norm", "cooldown", "count_before", "rate", "count", "gradients_left"]
    assert [step.name for step in section.steps] == names
    weights = dict(translator.model.named_parameters())
    assert [row[0] for row in table.rows] == list(weights)
    moved = (
        trained["output_projection.linear.weight.value"].value - weights["output_projection.linear.weight"].detach()
    )
    name, shape, gradient, first, second, change = table.rows[-1]
    assert (name, shape) == ("output_projection.linear.weight", "(17, 22)")
    assert gradient == trained["output_projection.linear.weight.gradient"].value.norm().item()
    assert change == pytest.approx(moved.norm().item())
    assert float(first) == pytest.approx(
        trained["output_projection.linear.weight.first_moment"].value.norm().item(), rel=0.1
    )
    assert float(second) > 0
    norm = number_text(trained["update.gradient_norm"].value.item())
    assert table.caption.startswith(f"gradient of all weights: norm {norm}, shortened to 0.100; learning rate")
    assert table.caption.endswith("update 1")


def test_a_gradient_that_is_short_enough_is_not_said_to_be_shortened(translator):
    walked = walk_training(translator, SOURCES, TARGETS, TrainConfig(warmup=1, clip_norm=0))
    assert "shortened" not in section_of(walked, "Update").tables[0].caption


def test_the_numbers_of_the_update_are_folded_until_they_are_asked_for(trained, printed):
    text = printed(trained)
    assert ": of each weight the gradient, the moments and the value, before and after" in text
    assert "clipped_gradient" not in text
    steps = [step for step in trained.steps if step.address.startswith("decoder.layers.1.feed_forward.w_2.bias.")]
    shown = printed(replace(trained, steps=tuple(steps)), values=True)
    for name in ("gradient", "clipped_gradient", "first_moment_before", "second_moment", "value_before", "value"):
        assert f" {name} " in shown
    assert "showing 8 of 22 along row" in shown
    assert "of each weight" not in shown


def test_values_come_with_their_gradients(trained):
    step = trained["decoder.layers.0.cross_attention.weights"]
    tables = list(value_tables(trained, step, 1, TableLimits()))
    titles = [f"h = {head}" for head in range(4)]
    assert [table.title for table in tables] == [*titles, *(f"gradient, {title}" for title in titles)]
    assert tables[4].headers == tables[0].headers
    assert list(tables[5].rows[2][1:]) == step.gradient[1, 1, 2].tolist()
    (mean, gradient) = value_tables(trained, trained["loss.mean"], 0, TableLimits())
    assert mean.title == f"= {number_text(trained['loss.mean'].value.item())}"
    assert gradient.title == "gradient, = 1.000"


def test_a_training_step_is_markdown_and_html(trained):
    text = trained.to_markdown(values=False)
    assert "# Training step of 3 sentences" in text
    assert "| number | step | equation | symbols = shape | gradient | section |" in text
    assert "| encoder.layers.0.self\\_attention.w\\_q.weight | (33, 22) |" in text
    assert "learning rate" in text
    html = trained._repr_html_()
    assert "\nUpdate\n" in html
    assert "encoder.layers.0.self_attention.w_q.weight" in html
    assert len(html.encode()) < 3_000_000


def test_the_callers_random_numbers_are_left_alone(translator):
    before = torch.random.get_rng_state()
    walk_training(translator, SOURCES[:1], TARGETS[:1], TrainConfig())
    assert torch.equal(torch.random.get_rng_state(), before)


def test_after_a_restart_the_rate_is_halved_frozen_weights_stay_and_the_step_follows(restarted, translator):
    assert restarted["update.restarts"].value.item() == 1
    assert restarted["update.rate"].value.item() == learning_rate(1, restarted.train, 22) / 2
    names = [step.name for step in section_of(restarted, "Update").steps]
    assert names == ["gradient_norm", "cooldown", "restarts", "count_before", "rate", "count", "gradients_left"]
    for name, weight in translator.model.named_parameters():
        is_frozen = name.startswith("encoder.") or name.endswith(".w_q.weight")
        assert torch.equal(restarted[f"{name}.value"].value, weight) == is_frozen, name


def test_weights_that_were_frozen_for_a_while_follow_by_their_own_count(translator, tmp_path):
    """A run may be resumed with other frozen weights, by --force: Adam's counts then differ from weight to weight."""
    weights = dict(translator.model.named_parameters())
    counts = {name: float(3 - place % 3) for place, name in enumerate(weights)}
    saved = {
        key: value
        for name, weight in weights.items()
        for key, value in (
            (f"step/{name}", torch.tensor(counts[name])), (f"exp_avg/{name}", 1e-3 * torch.randn_like(weight)),
            (f"exp_avg_sq/{name}", 1e-6 * torch.rand_like(weight)),
        )
    }  # fmt: skip
    state = {"counters": asdict(TrainState(update=3))}
    save_checkpoint(RunDirectory(tmp_path).latest, 1, {OPTIMIZER: saved}, state)
    for frozen in ("", "encoder,decoder,src_embedding"):
        walked = walk_training(translator, SOURCES, TARGETS, TrainConfig(warmup=7, freeze=frozen), run=tmp_path)
        left = [count for name, count in counts.items() if not frozen or name.split(".")[0] not in frozen.split(",")]
        assert walked["update.count_before"].value.item() == max(left)
        assert verify_walk(walked, translator.model).holds
