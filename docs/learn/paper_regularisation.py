# %% [markdown]
# # Dropout and label smoothing
#
# *Attention Is All You Need*, section 5.4, names what keeps the model from learning its training text by heart:
# dropout in certain places at a certain rate, and label smoothing; the paper says that it hurts perplexity
# and helps BLEU. Here we find the places in the real model and measure the rate, recompute the smoothed loss by hand,
# and work out how much perplexity it must cost.
#
# After this lesson you can find every dropout of the model, compute a smoothed loss by hand, and say how much
# perplexity smoothing must cost.
#
# What the paper states and what comes out again is folded with the code that holds it. A line with ✗ shows a place
# where the paper slips: what it states, and what comes out.

# %%
import math
from collections import Counter

import matplotlib.pyplot as plt
import torch
from lesson import CONSEQUENCE, Lesson

from glassformer import ModelConfig, TrainConfig, Transformer
from glassformer.model.attention import MultiHeadAttention
from glassformer.model.dropout import Dropout
from glassformer.training.objective.loss import smoothed_loss, smoothed_targets

torch.manual_seed(0)
torch.set_printoptions(precision=4, sci_mode=False, linewidth=110)
lesson = Lesson("paper 5.4", "Attention Is All You Need, section 5.4: Regularization")

# %% [markdown]
# ## Where dropout acts
#
# Dropout sets each number to zero with probability `P_drop`, independently, and only in training. The paper applies
# it to the output of each sublayer, before it is added to what went round the sublayer, and to the sum of embedding
# and position on both sides. A model of six and six layers has two sublayers in each encoder layer and three in each
# decoder layer. We collect every dropout in the real base model.

# %%
with torch.device("meta"):  # shapes only: nothing is computed with it
    base = Transformer(ModelConfig.base())
places = [address for address, module in base.named_modules() if isinstance(module, Dropout)]
kinds = Counter(
    "sum of embedding and position" if "embedding" in place else "output of a sublayer" for place in places
)
for place in places[:4]:
    print(place)
print("...")
for kind, count in kinds.items():
    print(f"{count:3} times on the {kind}")

lesson.states("5.4", "dropout on the sums in both stacks", 2, kinds["sum of embedding and position"])
lesson.states("5.4 and 3.1", "dropout on each sublayer's output", 6 * 2 + 6 * 3, kinds["output of a sublayer"])
rates = {module.p for module in base.modules() if isinstance(module, Dropout)}
lesson.states("5.4", "P_drop of the base model", {0.1}, rates)

# %% [markdown]
# Nothing drops out inside attention, and nothing between the two maps of the feed-forward network: much code that
# follows the paper does one or both, but section 5.4 has neither. Yet section 6.3 speaks of "dropout, both attention
# and residual (section 5.4)". Section 5.4 also announces three types of regularisation and then has two headings. One
# can get to three by counting the two kinds of places apart; an attention dropout is not to be found.

# %%
attentions = [module for module in base.modules() if isinstance(module, MultiHeadAttention)]
inside = [place for attention in attentions for place in attention.modules() if isinstance(place, Dropout)]
print(f"{len(attentions)} attentions, {len(inside)} dropouts inside them")
lesson.slips(
    "6.3",
    "section 5.4 has a dropout on attention (our model is built to its letter)",
    True,
    bool(inside),
    words="dropout, both attention and residual (section 5.4)",
    kind=CONSEQUENCE,
    why="Section 5.4 applies dropout to sublayer outputs and to embedding sums; it describes none on attention.",
)

# %% [markdown]
# ## How much falls out
#
# We send a batch through a smaller model in training mode and look at what goes into each dropout and what comes out.
# What stays is divided by 1 - `P_drop`, so that the sum over a row keeps its size on average.

# %%
config = ModelConfig.base(src_vocab=1_000, tgt_vocab=1_000, n_encoder_layers=2, n_decoder_layers=2)
model = Transformer(config).train()
dropped: dict[str, float] = {}
factors: set[float] = set()


def watch(address: str):
    """Remember which part of the input came out as zero, and what the rest was multiplied by."""

    def look(module: Dropout, inputs: tuple[torch.Tensor], output: torch.Tensor) -> None:
        given = inputs[0] != 0
        dropped[address] = float((output[given] == 0).float().mean())
        kept = output != 0
        factors.add(round(float((output[kept] / inputs[0][kept]).median()), 4))

    return look


dropouts = {name: module for name, module in model.named_modules() if isinstance(module, Dropout)}
hooks = [module.register_forward_hook(watch(name)) for name, module in dropouts.items()]
src_ids, tgt_ids = torch.randint(4, 1_000, (8, 25)), torch.randint(4, 1_000, (8, 25))
with torch.no_grad():
    model(src_ids, tgt_ids)
for hook in hooks:
    hook.remove()

fig, axes = plt.subplots(figsize=(7, 3.8))
names = [name.replace("_add_norm.dropout", "").replace(".dropout", "") for name in dropped]
axes.barh(names, dropped.values(), color="tab:blue")
axes.axvline(0.1, color="black", linewidth=0.8)
axes.set_xlabel("part of the numbers that became zero (line: P_drop = 0.1)")
axes.invert_yaxis()
axes.tick_params(axis="y", labelsize=7)
fig.tight_layout()
plt.show()
plt.close("all")
print(f"from {min(dropped.values()):.4f} to {max(dropped.values()):.4f}; kept numbers are multiplied by {factors}")
mean_rate = sum(dropped.values()) / len(dropped)
lesson.states("5.4", "measured part that drops out, base model", 0.1, mean_rate, within=0.001)
assert factors == {round(1 / 0.9, 4)}

# %% [markdown]
# Two passes of the same batch therefore differ in training, and are the same to the last bit in evaluation.

# %%
with torch.no_grad():
    first, second = model(src_ids, tgt_ids), model(src_ids, tgt_ids)
    model.eval()
    third, fourth = model(src_ids, tgt_ids), model(src_ids, tgt_ids)
print(f"training:   largest difference between two passes {float((first - second).abs().max()):.3f}")
print(f"evaluation: largest difference between two passes {float((third - fourth).abs().max()):.3f}")
assert torch.equal(third, fourth)
assert not torch.equal(first, second)

# %% [markdown]
# ## Label smoothing: a softer answer
#
# Without smoothing the target is: this token with probability 1, all others with 0. Smoothing of ε takes ε of it
# and spreads it over the vocabulary. There are several ways to spread, and they are confused often:
#
# - evenly over all `vocab` entries, the right one among them: the right one gets 1 - ε + ε / vocab. So does the work
#   that the paper cites (Szegedy et al. 2015, arXiv 1512.00567), so does PyTorch, and so does glassformer;
# - over the `vocab` - 1 wrong ones: the right one gets 1 - ε exactly. So does the code that the authors published
#   (tensor2tensor).
#
# The paper itself does not say. For ten entries one sees the difference, for 37,000 not.

# %%
EPSILON = 0.1
lesson.states("5.4", "ε of label smoothing", EPSILON, TrainConfig().label_smoothing)


def over_the_wrong_ones(target: int, vocab: int) -> torch.Tensor:
    """The other convention: 1 - ε on the target, ε / (vocab - 1) on each other entry."""
    q = torch.full((vocab,), EPSILON / (vocab - 1))
    q[target] = 1 - EPSILON
    return q


def over_all(target: int, vocab: int) -> torch.Tensor:
    """What glassformer trains against."""
    ids = torch.tensor([[target]])
    return smoothed_targets(ids, torch.tensor([[True]]), vocab, EPSILON)[0, 0]


for vocab in (10, 37_000):
    q, other = over_all(3, vocab), over_the_wrong_ones(3, vocab)
    print(f"vocab {vocab:6,}   over all          : {q[3]:.7f} for the right one, {q[0]:.2e} for each other")
    print(f"{'':14} over the wrong ones: {other[3]:.7f} for the right one, {other[0]:.2e} for each other")
    assert float((q - other).abs().max()) > 0.009 if vocab == 10 else float((q - other).abs().max()) < 3e-6

fig, axes = plt.subplots(figsize=(7, 3.2))
entries = torch.arange(10)
axes.bar(entries - 0.27, torch.nn.functional.one_hot(torch.tensor(3), 10), 0.25, label="no smoothing")
axes.bar(entries, over_all(3, 10), 0.25, label="ε / vocab on all (here)")
axes.bar(entries + 0.27, over_the_wrong_ones(3, 10), 0.25, label="ε / (vocab - 1) on the others")
axes.set_xlabel("entry of a vocabulary of ten; entry 3 is right")
axes.set_ylabel("probability to be learned")
axes.set_xticks(entries.tolist())
axes.legend(fontsize=8)
fig.tight_layout()
plt.show()
plt.close("all")

# %% [markdown]
# The two are one and the same with another ε: smoothing over all with ε' = ε · vocab / (vocab - 1) is smoothing over
# the wrong ones with ε. For ten entries 0.1 becomes 0.111.

# %%
same = smoothed_targets(torch.tensor([[3]]), torch.tensor([[True]]), 10, EPSILON * 10 / 9)[0, 0]
print(same)
assert torch.allclose(same, over_the_wrong_ones(3, 10))

# %% [markdown]
# ## The loss by hand
#
# The loss of one position is the cross-entropy of the smoothed distribution q and the model's p, −Σ q log p. We
# compute it with plain sums for a small batch, with one padded position, and hold `smoothed_loss`, which training
# calls, against it, and PyTorch's own.

# %%
VOCAB, PAD = 10, 0
logits = torch.randn(2, 3, VOCAB, dtype=torch.float64)
targets = torch.tensor([[3, 7, 2], [4, 2, PAD]])


def by_hand(logits: torch.Tensor, targets: torch.Tensor) -> float:
    """−Σ q log p, summed over the positions that are not padding."""
    total = 0.0
    for row, answer in zip(logits.flatten(0, 1), targets.flatten().tolist(), strict=True):
        if answer == PAD:
            continue
        log_sum = math.log(sum(math.exp(float(logit)) for logit in row))
        for entry, logit in enumerate(row.tolist()):
            q = EPSILON / VOCAB + (1 - EPSILON) * (entry == answer)
            total -= q * (logit - log_sum)
    return total


loss, nll, tokens = smoothed_loss(logits.float(), targets, PAD, EPSILON)
torchs = torch.nn.functional.cross_entropy(
    logits.flatten(0, 1), targets.flatten(), ignore_index=PAD, label_smoothing=EPSILON, reduction="sum"
)
print(f"by hand {by_hand(logits, targets):.6f}   smoothed_loss {float(loss):.6f}   PyTorch {float(torchs):.6f}")
print(f"over {tokens} tokens; the padded position counts nowhere. Without smoothing the loss is {float(nll):.6f}")
assert math.isclose(by_hand(logits, targets), float(loss), rel_tol=1e-6)
assert math.isclose(float(torchs), float(loss), rel_tol=1e-6)

# %% [markdown]
# The gradient for the logits is p − q: it pulls until the model says q, and no further. Without smoothing it pulls
# the right logit up for ever.

# %%
asked = logits.float().requires_grad_()
smoothed_loss(asked, targets, PAD, EPSILON)[0].backward()
expected = logits[0, 0].softmax(-1).float() - over_all(3, VOCAB)
print("gradient ", asked.grad[0, 0])
print("p - q    ", expected)
assert torch.allclose(asked.grad[0, 0], expected, atol=1e-6)
assert asked.grad[1, 2].abs().sum() == 0  # padding
sure = torch.tensor([[[0.0, 0.0, 0.0, 9.0]]], requires_grad=True)  # the right token has all but 0.04 %
smoothed_loss(sure, torch.tensor([[3]]), PAD, 0.0)[0].backward()
assert sure.grad[0, 0, 3] < 0, "the loss without smoothing still falls as the right logit rises"

# %% [markdown]
# ## The lowest loss there is
#
# Cross-entropy is lowest where p = q, and there it is the entropy of q, which is not zero. A training loss that seems
# to be stuck at 1.38 may thus be perfect. For the paper's ε and vocabulary:


# %%
def entropy(q: torch.Tensor) -> float:
    """−Σ q log q in nats."""
    return -float((q.double() * q.double().log()).sum())


for vocab in (10, 1_000, 37_000):
    q = over_all(3, vocab)
    perfect, plain, _ = smoothed_loss(q.log()[None, None], torch.tensor([[3]]), PAD, EPSILON)
    print(
        f"vocab {vocab:6,}: entropy {entropy(q):.4f}  p = q: smoothed {float(perfect):.4f}, plain {float(plain):.4f}"
    )
    assert math.isclose(entropy(q), float(perfect), abs_tol=1e-3)
assert round(entropy(over_all(3, 37_000)), 2) == 1.38

confidences = [number / 1_000 for number in range(700, 1_000)]
fig, axes = plt.subplots(figsize=(7, 3.3))
for epsilon, style in ((0.0, "--"), (0.1, "-"), (0.2, ":")):
    q_target, q_other = 1 - epsilon + epsilon / 37_000, epsilon / 37_000
    curve = [
        -q_target * math.log(p) - q_other * 36_999 * math.log((1 - p) / 36_999) if epsilon else -math.log(p)
        for p in confidences
    ]
    axes.plot(confidences, curve, style, label=f"ε = {epsilon}")
    best = confidences[curve.index(min(curve))]
    print(f"ε = {epsilon}: the loss is lowest when the right token is given {best:.3f}")
axes.set_xlabel("probability that the model gives to the right token")
axes.set_ylabel("smoothed loss, nats")
axes.set_ylim(-0.2, 4.2)
axes.legend(fontsize=8, loc="upper left", ncols=3)
fig.tight_layout()
plt.show()
plt.close("all")

# %% [markdown]
# ## Why perplexity suffers, and by how much
#
# Perplexity is exp of the mean plain loss, −log p(right token), on text that was not trained on. A model that learned
# q perfectly gives the right token no more than about 0.9 even where it is sure, so its perplexity is at least
# 1 / 0.9 = 1.11, where 1 was possible.
#
# More generally: if the next token really follows a distribution r, the smoothed loss is lowest at
# p = (1 − ε) r + ε / vocab. As p is at least (1 − ε) r everywhere, the plain loss grows by at most −ln(1 − ε), and
# perplexity by a factor of at most 1 / (1 − ε). We let gradient descent find the lowest smoothed loss for an r of our
# choice and compare.

# %%
r = torch.tensor([0.0, 0.0, 0.05, 0.6, 0.2, 0.1, 0.05, 0.0, 0.0, 0.0])
answers = torch.repeat_interleave(torch.arange(10), (r * 20).round().long())[None]  # r as twenty answers
free = torch.zeros(1, 1, 10, requires_grad=True)
descent = torch.optim.Adam([free], lr=0.1)
for _ in range(300):
    loss, _, tokens = smoothed_loss(free.expand(1, 20, 10), answers, PAD, EPSILON)
    descent.zero_grad()
    (loss / tokens).backward()
    descent.step()
found = free.detach()[0, 0].softmax(-1)
print("r          ", r)
print("found      ", found)
print("(1-ε)r+ε/V ", (1 - EPSILON) * r + EPSILON / 10)
assert torch.allclose(found, (1 - EPSILON) * r + EPSILON / 10, atol=1e-3)
assert round(1 / float(over_all(3, 37_000)[3]), 2) == 1.11
best = math.exp(-float((r[r > 0] * r[r > 0].log()).sum()))
smoothed = math.exp(-float((r[r > 0] * found[r > 0].log()).sum()))
print(
    f"perplexity of r itself {best:.3f}, of what smoothing finds {smoothed:.3f}: {smoothed / best:.3f} times as much"
)
assert 1 <= smoothed / best <= 1 / (1 - EPSILON)

# %% [markdown]
# The paper measured it: rows (D) of table 3 train the base model with other ε, everything else unchanged.

# %%
table_3 = {0.0: (4.67, 25.3), 0.1: (4.92, 25.8), 0.2: (5.47, 25.7)}  # ε: perplexity and BLEU on newstest2013
for epsilon, (perplexity, bleu) in table_3.items():
    factor = perplexity / table_3[0.0][0]
    print(f"ε = {epsilon}: perplexity {perplexity}, {factor:.3f} times (bound {1 / (1 - epsilon):.3f}), BLEU {bleu}")
    assert factor <= 1 / (1 - epsilon)
lesson.states(
    "5.4", "smoothing of 0.1 hurts perplexity: rows (D) of table 3", True, table_3[0.1][0] > table_3[0.0][0]
)
lesson.states("5.4", "and improves BLEU: rows (D) of table 3", True, table_3[0.1][1] > table_3[0.0][1])
assert max(table_3, key=lambda epsilon: table_3[epsilon][1]) == 0.1

# %% [markdown]
# All stay below their bounds, and BLEU is best at 0.1. Why BLEU gains the paper does not say beyond that the model
# learns to be more unsure. glassformer reports its validation loss and perplexity without smoothing, so that they
# can be compared between runs of different ε.

# %% [markdown]
# ## Exercises

# %% tags=["exercises"]
lesson.exercise(
    "A vocabulary of 5 and ε = 0.1, spread over all entries: what is the probability to learn for the right one?",
    0.92,
    float(over_all(3, 5)[3]),
    within=1e-6,
)
lesson.exercise(
    "How many dropouts has a model of two encoder and two decoder layers?",
    2 + 2 * 2 + 2 * 3,
    sum(isinstance(module, Dropout) for module in Transformer(config).modules()),
)
lesson.exercise(
    "ε = 0.2: by which factor can the lowest smoothed loss raise perplexity at most?",
    1.25,
    1 / (1 - 0.2),
    within=1e-9,
)

# %%
lesson.end()
