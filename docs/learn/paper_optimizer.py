# %% [markdown]
# # The optimizer, its schedule, and the clock
#
# *Attention Is All You Need* tells in section 5.3 how the weights were moved: by Adam, at a rate that first climbs
# and then falls. Section 5.2 tells how long that took. Here the schedule is drawn and recomputed from equation 3,
# Adam is worked by hand and compared with the one that glassformer uses, and two small models show what the climb is
# for.
#
# After this lesson you can compute the rate of any update, work Adam by hand, and say what the climb of the rate is
# for.
#
# What the paper states and what comes out again is folded with the code that holds it.

# %%
import math

import matplotlib.pyplot as plt
import torch
from lesson import Lesson

from glassformer import ModelConfig, TrainConfig, Transformer
from glassformer.settings import WARMUP
from glassformer.text.corpus.batches import Batch
from glassformer.training.loop.optimizer import adam_step, new_optimizer
from glassformer.training.loop.schedule import learning_rate
from glassformer.training.loop.update import accumulate_gradients

torch.manual_seed(0)
lesson = Lesson("paper 5.3", "Attention Is All You Need, sections 5.2 and 5.3: Hardware and Schedule, Optimizer")

# %% [markdown]
# ## The schedule: equation 3
#
# The rate of update number `step` is
#
# $$\text{lrate} = d_\text{model}^{-0.5} \cdot \min(\text{step}^{-0.5},\ \text{step} \cdot \text{warmup}^{-1.5})$$
#
# Of the two curves in the minimum the second rises as a straight line and the first falls; they meet where `step` is
# `warmup`. `learning_rate` is the function that training calls. It is written with the peak in front, so we hold it
# against the equation as printed.

# %%
paper = TrainConfig(schedule="noam", warmup=4_000)


def equation_3(step: int, d_model: int, warmup: int) -> float:
    """Equation 3, as it is printed."""
    return d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)


for step in (1, 100, 2_000, 3_999, 4_000, 4_001, 16_000, 100_000):
    rate = learning_rate(step, paper, 512)
    assert math.isclose(rate, equation_3(step, 512, 4_000), rel_tol=1e-12)
    print(f"update {step:7,}  rate {rate:.3e}")

# %%
rates = [learning_rate(step, paper, 512) for step in range(1, 20_001)]
peak = max(rates)
steps_up = {round(later / earlier, 6) for earlier, later in zip(rates[:1_999], rates[1:3_998:2], strict=True)}
lesson.states("5.3", "the update with the highest rate (warmup_steps)", 4_000, 1 + rates.index(peak))
lesson.states("5.3", "linear before: twice the update, twice the rate", {2.0}, steps_up)
lesson.states(
    "5.3", "inverse square root after: 4 times the update, rate times", 0.5, rates[15_999] / peak, within=1e-12
)
print(f"the peak of base: {peak:.2e} = 1 / √(512 · 4,000) = {1 / math.sqrt(512 * 4_000):.2e}")
print(f"the peak of big : {learning_rate(4_000, paper, 1_024):.2e}")
longer = TrainConfig(schedule="noam", warmup=8_000)
assert learning_rate(8_000, longer, 512) < peak
assert math.isclose(learning_rate(8_001, longer, 512), learning_rate(8_001, paper, 512), rel_tol=1e-12)
assert all(learning_rate(step, paper, 1_024) < rate for step, rate in enumerate(rates, 1))

# %% [markdown]
# The peak is 1 / √(d_model · warmup). So `warmup` is two knobs in one: a longer climb is also a lower peak, and after
# the peak all curves of one `d_model` run into each other. A wider model is given lower rates everywhere.

# %%
fig, axes = plt.subplots(1, 2, figsize=(7, 3.5), sharey=True)
updates = range(1, 20_001, 20)
for warmup in (1_000, 4_000, 8_000):
    settings = TrainConfig(schedule="noam", warmup=warmup)
    axes[0].plot(updates, [learning_rate(step, settings, 512) for step in updates], label=f"warm-up {warmup:,}")
for width in (128, 512, 1_024):
    axes[1].plot(updates, [learning_rate(step, paper, width) for step in updates], label=f"d_model {width:,}")
axes[0].set_title("d_model 512", fontsize=10)
axes[1].set_title("warm-up 4,000", fontsize=10)
axes[0].set_ylabel("learning rate")
for panel in axes:
    panel.set_xlabel("update")
    panel.legend(fontsize=8)
fig.tight_layout()
plt.show()
plt.close("all")

# %% [markdown]
# Where do 100,000 updates go? The climb is 4 % of them. The rate ends at a fifth of the peak.

# %%
last_rate = learning_rate(100_000, paper, 512)
print(f"share of the climb: {4_000 / 100_000:.0%}   last rate / peak: {last_rate / peak:.2f}")
assert math.isclose(last_rate / peak, 0.2, rel_tol=1e-9)

# %% [markdown]
# ## Adam
#
# Plain gradient descent moves each weight by rate · gradient. Adam (Kingma and Ba 2015) keeps two running means for
# each weight: $m$ of its gradient and $v$ of its gradient squared,
#
# $$m \leftarrow \beta_1 m + (1 - \beta_1) g \qquad v \leftarrow \beta_2 v + (1 - \beta_2) g^2$$
#
# and moves the weight by rate · $\hat m / (\sqrt{\hat v} + \epsilon)$. The hats are a correction: both means start at
# zero, and after $t$ updates they hold only a share $1 - \beta^t$ of what they should, so they are divided by it.
# A weight whose gradients all agree moves by the rate itself, however small they are.

# %%
defaults = TrainConfig()
stated = {"β1": 0.9, "β2": 0.98, "ε": 1e-9}
ours = {"β1": defaults.adam_beta1, "β2": defaults.adam_beta2, "ε": defaults.adam_eps}
lesson.states("5.3", "Adam's constants", stated, ours)


def adam_by_hand(gradients: list[float], rate: float, corrected: bool = True) -> list[float]:
    """The moves of one weight under these gradients, with the paper's constants."""
    m = v = 0.0
    moves = []
    for t, gradient in enumerate(gradients, 1):
        m = 0.9 * m + 0.1 * gradient
        v = 0.98 * v + 0.02 * gradient**2
        share_m, share_v = (1 - 0.9**t, 1 - 0.98**t) if corrected else (1.0, 1.0)
        moves.append(-rate * (m / share_m) / (math.sqrt(v / share_v) + 1e-9))
    return moves


for steady in (1.0, 1e-4):
    assert all(math.isclose(move, -0.001, rel_tol=1e-4) for move in adam_by_hand([steady] * 20, 0.001))

# %% [markdown]
# The same by the real thing: `new_optimizer` and `adam_step` are what training calls. One weight, five gradients.

# %%
gradients = [0.5, 0.4, -0.2, 0.3, 0.01]
one_weight = torch.nn.Linear(1, 1, bias=False, dtype=torch.float64)
optimizer = new_optimizer(one_weight, defaults)
print("update  gradient  move by hand   move by Adam")
for number, (gradient, expected) in enumerate(zip(gradients, adam_by_hand(gradients, 0.001), strict=True), 1):
    before = one_weight.weight.item()
    one_weight.weight.grad = torch.tensor([[gradient]], dtype=torch.float64)
    adam_step(one_weight, optimizer, 0.001)
    move = one_weight.weight.item() - before
    print(f"{number:6} {gradient:9.2f} {expected:13.7f} {move:14.7f}")
    assert math.isclose(move, expected, rel_tol=1e-6)
moves = adam_by_hand(gradients, 0.001)
assert math.isclose(moves[0], -0.001, rel_tol=1e-6)
assert moves[2] < 0
assert 0.7 < moves[4] / moves[3] < 1

# %% [markdown]
# The first move is the rate itself, 0.001: after one update $\hat m$ is the gradient and $\sqrt{\hat v}$ its size. A
# single gradient that turns round (the third) does not turn the move round, and one that is thirty times smaller than
# the one before it (the fifth) hardly shortens it: $m$ remembers about 1 / (1 - β1) = 10 updates, $v$ about 1 / (1 -
# β2) = 50.
#
# What would happen without the correction? With gradients that never change, the move should be one rate long. The
# uncorrected one is $(1 - \beta_1^t) / \sqrt{1 - \beta_2^t}$ rates long:

# %%
count = 300
fig, axes = plt.subplots(figsize=(7, 3.3))
for beta2, style in ((0.98, "-"), (0.999, "--")):
    lengths = [(1 - 0.9**t) / math.sqrt(1 - beta2**t) for t in range(1, count + 1)]
    axes.plot(range(1, count + 1), lengths, style, label=f"without correction, β2 = {beta2}")
    largest = max(lengths)
    print(
        f"β2 = {beta2}: first move {lengths[0]:.2f} rates, longest {largest:.2f}, update {1 + lengths.index(largest)}"
    )
    assert largest > 6 if beta2 == 0.999 else largest < 1.6 and lengths[100] < 1.1
by_hand = [-move / 0.001 for move in adam_by_hand([0.3] * count, 0.001, corrected=False)]
assert all(math.isclose(a, (1 - 0.9**t) / math.sqrt(1 - 0.98**t), rel_tol=1e-6) for t, a in enumerate(by_hand, 1))
axes.axhline(1.0, color="black", linewidth=0.8, label="with correction")
axes.set_xlabel("update")
axes.set_ylabel("length of a move, in rates")
axes.legend(fontsize=8)
fig.tight_layout()
plt.show()
plt.close("all")

# %% [markdown]
# With the usual β2 = 0.999 uncorrected moves would grow to more than six rates. With the paper's 0.98 the harm
# would be small, and nearly over after a hundred updates. The correction is still made: it costs nothing.
#
# And ε = 10⁻⁹? It keeps the quotient finite where a weight never had a gradient. It would matter where √v is not
# much larger; in a real model at its first update, that is hardly anywhere:

# %%
VOCAB = 20


def reversing_batch(generator: torch.Generator, sentences: int = 16, length: int = 6) -> Batch:
    """Sequences of random tokens 4 to 19, to be written backwards; 1 starts and 2 ends a target."""
    src = torch.randint(4, VOCAB, (sentences, length), generator=generator)
    end, start = torch.full((sentences, 1), 2), torch.full((sentences, 1), 1)
    tgt_out = torch.cat([src.flip(1), end], dim=1)
    return Batch(torch.cat([src, end], dim=1), torch.cat([start, tgt_out[:, :-1]], dim=1), tgt_out)


def new_model(seed: int) -> Transformer:
    """Four encoder and four decoder layers in the paper's order: the norm after the residual sum."""
    torch.manual_seed(seed)
    sizes = {"src_vocab": VOCAB, "tgt_vocab": VOCAB, "d_model": 64, "n_heads": 2, "d_ff": 256, "max_length": 32}
    return Transformer(ModelConfig(**sizes, n_encoder_layers=4, n_decoder_layers=4, dropout=0.0)).train()


model = new_model(0)
accumulate_gradients(model, [reversing_batch(torch.Generator().manual_seed(0))], defaults)
sizes = torch.cat([parameter.grad.abs().flatten() for parameter in model.parameters()])
print(f"{sizes.numel():,} gradients; the middle one has size {sizes.median():.1e}")
tiny = (sizes > 0) & (sizes < 1e-8)
print(f"exactly zero: {(sizes == 0).float().mean():.2%}   more than zero, less than 10⁻⁸: {tiny.float().mean():.4%}")
assert tiny.float().mean() < 0.001

# %% [markdown]
# ## What the climb is for
#
# The paper does not say why the rate climbs first. We can watch it: two models with the same weights and the same
# batches, whose rates have the same peak. One climbs to it over 50 updates, the other starts there. The task is to
# write six random tokens backwards, and has 17 answers at each position (16 tokens and the end). A model that does
# not look at the source can do no better than about ln 17.


# %%
def losses(warmup: int, updates: int = 60, peak_rate: float = 5e-3) -> list[float]:
    """The loss of each update, in nats per token, while the rate climbs over ``warmup`` updates and then stays."""
    settings = TrainConfig(label_smoothing=0.0)
    model, generator = new_model(1), torch.Generator().manual_seed(1)
    optimizer = new_optimizer(model, settings)
    found = []
    for update in range(1, updates + 1):
        measured = accumulate_gradients(model, [reversing_batch(generator)], settings)
        adam_step(model, optimizer, peak_rate * min(1.0, update / warmup))
        found.append(measured.nll / measured.tokens)
    return found


curves = {"climbs over 50 updates": losses(50), "starts at the peak": losses(1)}
fig, axes = plt.subplots(figsize=(7, 3.3))
for name, curve in curves.items():
    axes.plot(range(1, len(curve) + 1), curve, label=name)
    print(f"{name:23} mean loss of the last ten updates {sum(curve[-10:]) / 10:.2f}")
axes.axhline(math.log(17), color="black", linewidth=0.8, linestyle=":", label="ln 17: every answer alike")
axes.set_ylim(2.0, 3.6)
axes.set_xlabel("update")
axes.set_ylabel("loss, nats per token")
axes.legend(fontsize=8)
fig.tight_layout()
plt.show()
plt.close("all")
climbed, jumped = (sum(curve[-10:]) / 10 for curve in curves.values())
assert climbed < jumped - 0.2
assert abs(jumped - math.log(17)) < 0.1
assert WARMUP == {"pre": 500, "post": 4_000}

# %% [markdown]
# The one that starts at the peak falls to the loss of "every answer alike" and stays there: its first moves, each one
# rate long for every weight, have led it where it does not find the way back within these updates. The other learns.
# Models with the norm before the sublayer (`norm = "pre"`) are less touchy (Xiong et al. 2020, arXiv 2002.04745), and
# glassformer gives those 500 updates of warm-up instead of 4,000.
#
# ## The clock: section 5.2
#
# On one machine with 8 P100 GPUs a step of base took about 0.4 seconds and one of big 1.0. The section also gives the
# totals, 12 hours and 3.5 days. Do they agree?

# %%
HOUR, DAY = 3_600, 86_400
base_seconds, big_days = 12 * HOUR / 100_000, 300_000 * 1.0 / DAY
print(f"base: 100,000 steps of 0.4 s are {100_000 * 0.4 / HOUR:.1f} hours; 12 hours are {base_seconds:.3f} s a step")
print(f"big : 300,000 steps of 1.0 s are {big_days:.2f} days")
lesson.states("5.2", "base: seconds a step, 12 hours over 100,000 steps", 0.4, round(base_seconds, 1))
lesson.states("5.2", "big: days, 300,000 steps of 1.0 s", 3.5, round(big_days, 1))

# %% [markdown]
# They do, within their rounding: 12 hours are 0.432 s a step, which is about 0.4. Multiplying the rounded 0.4 gives
# 11.1 hours, so further calculations should start from the hours. The warm-up of base, by the way, was over after
# half an hour, that of big after a little more than an hour.

# %%
print(f"warm-up of base {4_000 * base_seconds / 60:.0f} minutes, of big {4_000 / 60:.0f} minutes")
assert round(4_000 * base_seconds / 60) == 29
assert round(4_000 / 60) == 67

# %% [markdown]
# ## Exercises

# %% tags=["exercises"]
lesson.exercise(
    "d_model 128 and a warm-up of 500: what is the highest rate?",
    0.00395,
    max(learning_rate(step, TrainConfig(schedule="noam", warmup=500), 128) for step in range(1, 2_000)),
    within=5e-6,
)
lesson.exercise(
    "At which update after the peak at 4,000 is the rate half of the peak?",
    16_000,
    next(step for step in range(4_000, 20_000) if learning_rate(step, paper, 512) <= peak / 2),
)
lesson.exercise(
    "A gradient of 1, then one of -1, rate 0.001: how far from its start is the weight after both updates of Adam?",
    0.000947,
    abs(sum(adam_by_hand([1.0, -1.0], 0.001))),
    within=5e-6,
)

# %%
lesson.end()
