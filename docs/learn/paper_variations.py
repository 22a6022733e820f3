# %% [markdown]
# # Table 3 recounted, and what training cost
#
# *Attention Is All You Need* compares many sizes of its model in table 3 (section 6.2) and gives for some of them the
# number of parameters; table 2 (section 6.1) says how many floating-point operations training took. Both can be
# counted again. Here every row of table 3 is built with glassformer and its parameters are counted, and the
# operations of a training step are counted while it runs.
#
# After this lesson you can count the parameters of any size of the model, estimate the operations of a training, and
# read tables 2 and 3 with care.
#
# What the paper states and what comes out again is folded with the code that holds it. A line with ✗ shows a place
# where the paper's numbers do not agree with each other: what it states, and what comes out.

# %%
import matplotlib.pyplot as plt
import torch
from lesson import CONSEQUENCE, Lesson
from torch.utils.flop_counter import FlopCounterMode

from glassformer import ModelConfig, Transformer

lesson = Lesson("paper 6.2", "Attention Is All You Need, sections 6.1 and 6.2: tables 2 and 3")

# %% [markdown]
# ## The rows
#
# A row of table 3 names what it changes in the base model; everything else stays. On PyTorch's "meta" device a model
# has all its parameters with their shapes but no numbers in them, so that even the big one is built in a moment. A
# matrix that is shared counts once.


# %%
def on_paper(**changes) -> Transformer:
    """The base model with some settings changed, without any numbers in it."""
    with torch.device("meta"):
        return Transformer(ModelConfig.base(**changes))


def count(model: Transformer) -> int:
    """Parameters; a shared matrix counts once."""
    return sum(parameter.numel() for parameter in model.parameters())


def layers(number: int) -> dict[str, int]:
    """The paper's N: as many encoder as decoder layers."""
    return {"n_encoder_layers": number, "n_decoder_layers": number}


base = on_paper()
config = base.config
stated_base = {"N": 6, "d_model": 512, "d_ff": 2048, "h": 8, "d_k": 64, "d_v": 64, "P_drop": 0.1}
built = (config.n_encoder_layers, config.d_model, config.d_ff, config.n_heads, config.d_k, config.d_v, config.dropout)
lesson.states("table 3", "the base model", stated_base, dict(zip(stated_base, built, strict=True)))

BIG = {"d_model": 1024, "d_ff": 4096, "n_heads": 16}
ROWS = {  # what a row changes, and the table's parameters in millions
    "base": ({}, 65),
    "(B) d_k 16": ({"d_k": 16, "d_v": 64}, 58),
    "(B) d_k 32": ({"d_k": 32, "d_v": 64}, 60),
    "(C) N 2": (layers(2), 36),
    "(C) N 4": (layers(4), 50),
    "(C) N 8": (layers(8), 80),
    "(C) d_model 256": ({"d_model": 256, "d_k": 32, "d_v": 32}, 28),
    "(C) d_model 1024": ({"d_model": 1024, "d_k": 128, "d_v": 128}, 168),
    "(C) d_ff 1024": ({"d_ff": 1024}, 53),
    "(C) d_ff 4096": ({"d_ff": 4096}, 90),
    "big": (BIG, 213),
}
VOCAB = 37_000  # "about 37,000", section 5.1
counts = {name: count(on_paper(**changes)) for name, (changes, _) in ROWS.items()}
print(f"{'row':18} {'table 3':>8} {'counted':>12}")
for name, (_, stated) in ROWS.items():
    print(f"{name:18} {stated:>6} M {counts[name]:>12,}")
short_by = {name: round(stated - counts[name] / 1e6, 1) for name, (_, stated) in ROWS.items()}
assert short_by.pop("big") < -1
assert all(0.9 < gap < 4.5 for gap in short_by.values())

# %% [markdown]
# No row agrees. The counts fall short by one to four million, and big is a million over. A count that is always short
# speaks for a part that is larger than we think, and the only part whose size the paper gives roughly is the
# vocabulary. Section 5.1 says that it has about 37,000 entries. How many must it have for each row to come to the
# table's number, rounded to millions? Each row gives an interval.


# %%
def vocabularies(name: str) -> tuple[float, float]:
    """The least and the largest vocabulary that give a row the table's number of millions."""
    changes, stated = ROWS[name]
    width = changes.get("d_model", 512)
    without = counts[name] - VOCAB * width  # everything but the shared matrix
    return ((stated - 0.5) * 1e6 - without) / width, ((stated + 0.5) * 1e6 - without) / width


intervals = {name: vocabularies(name) for name in ROWS}
others = [interval for name, interval in intervals.items() if name != "big"]
lowest, highest = max(low for low, _ in others), min(high for _, high in others)

fig, axes = plt.subplots(figsize=(7, 3.8))
for place, (name, (low, high)) in enumerate(intervals.items()):
    axes.barh(place, high - low, left=low, color="tab:red" if name == "big" else "tab:blue")
axes.axvspan(lowest, highest, color="black", alpha=0.25, label="serves all rows but big")
axes.axvline(VOCAB, color="black", linestyle=":", label="about 37,000 (section 5.1)")
axes.set_yticks(range(len(intervals)), intervals)
axes.invert_yaxis()
axes.set_xlabel("vocabulary with which the row has the table's number of parameters")
axes.set_xlim(35_000, 44_000)
axes.legend(fontsize=8, loc="lower right")
fig.tight_layout()
plt.show()
plt.close("all")
print(f"all rows but big: a vocabulary from {lowest:,.0f} to {highest:,.0f}")
print(f"big             : a vocabulary from {intervals['big'][0]:,.0f} to {intervals['big'][1]:,.0f}")
assert lowest < 41_100 < highest < lowest + 1_000
assert intervals["big"][1] < lowest

# %% [markdown]
# This is a surprisingly sharp answer. Ten rows were rounded to millions independently, and one narrow range of
# vocabularies, about 41,100 entries, serves them all. So the table was counted with care, with one shared matrix and
# without biases in attention, as our model has it. Big alone does not fit in.

# %%
SERVES_TEN = 41_100
for name, (changes, stated) in ROWS.items():
    more = (SERVES_TEN - VOCAB) * changes.get("d_model", 512)  # rows of the one shared matrix
    if name != "big":
        claim = f"{name}: millions of parameters with {SERVES_TEN:,} entries"
        lesson.states("table 3", claim, stated, round((counts[name] + more) / 1e6))
assert counts["base"] + (SERVES_TEN - VOCAB) * 512 == count(on_paper(src_vocab=SERVES_TEN, tgt_vocab=SERVES_TEN))

# %% [markdown]
# What does not fit together, then, is this. With the 37,000 of section 5.1 base has 63 million parameters, not 65.
# With any vocabulary that gives base its 65 million, big has at least 217, not 213. We cannot know which number is
# off, only that they are not all of one model family as the text describes it. Biases would not mend it: with biases
# in attention and at the output, which the equations do not have, base grows by less than 0.1 million.

# %%
smallest = int(intervals["base"][0]) + 1
big_then = count(on_paper(**BIG, src_vocab=smallest, tgt_vocab=smallest))
biased = count(on_paper(attention_bias=True, output_bias=True))
print(f"biases add {biased - counts['base']:,} parameters to base")
assert biased - counts["base"] < 100_000
assert round(big_then / 1e6) == 217
assert intervals["big"][0] < 36_000 < intervals["big"][1]
lesson.slips(
    "table 3 and 5.1",
    "base: millions of parameters with 37,000 entries",
    65,
    round(counts["base"] / 1e6),
    words="base 6 512 2048 8 64 64 0.1 0.1 100K 4.92 25.8 65",
    why="The table's 65 million take a vocabulary of about 41,000 entries where section 5.1 has about 37,000.",
)
lesson.slips(
    "table 3",
    f"big: millions of parameters with {smallest:,} entries, the least that give base 65",
    213,
    round(big_then / 1e6),
    words="big 6 1024 4096 16 0.3 300K 4.33 26.4 213",
    kind=CONSEQUENCE,
    why="No vocabulary gives both base and big the numbers of the table; big's 213 takes about 36,000 entries.",
)

# %% [markdown]
# The counts also settle something that the table leaves open: rows (B) list a smaller `d_k` and leave `d_v` empty. If
# `d_v` had shrunk with it, many more parameters would have gone.

# %%
for d_k, stated in ((16, 58), (32, 60)):
    sizes = {"src_vocab": SERVES_TEN, "tgt_vocab": SERVES_TEN, "d_k": d_k}
    alone, both = (round(count(on_paper(**sizes, d_v=d_v)) / 1e6) for d_v in (64, d_k))
    print(f"d_k {d_k}: {alone} million if d_v stays 64, {both} if it shrinks too; the table has {stated}")
    assert abs(alone - stated) < abs(both - stated)

# %% [markdown]
# ## Rows (A): other heads, the same work
#
# Rows (A) vary the number of heads and choose `d_k` and `d_v` so that the amount of computation stays the same. Both
# the parameters and the operations can be counted: PyTorch's counter watches every matrix product that the model
# makes and takes two operations for each multiplication and its addition. We give it 1,000 pairs of 25 tokens on each
# side, the paper's 25,000 and 25,000 tokens of one batch.


# %%
def operations(model: Transformer, *, backward: bool, tokens: int = 25_000, length: int = 25) -> int:
    """Floating-point operations in the matrix products of one forward pass, and of one backward pass with it."""
    ids = torch.empty(tokens // length, length, dtype=torch.long, device="meta")
    with FlopCounterMode(display=False) as counter:
        logits = model(ids, ids)
        if backward:
            logits.sum().backward()
    return counter.get_total_flops()


ROWS_A = {1: (512, 24.9), 4: (128, 25.5), 8: (64, 25.8), 16: (32, 25.8), 32: (16, 25.4)}  # heads: d_k = d_v, BLEU
work = {}
for heads, (d_k, bleu) in ROWS_A.items():
    model = on_paper(n_heads=heads, d_k=d_k, d_v=d_k)
    work[heads] = (count(model), operations(model, backward=False))
    print(f"{heads:2} heads of {d_k:3}: {work[heads][0]:,} parameters, {work[heads][1]:.4e} operations, BLEU {bleu}")
lesson.states("6.2 (A)", "different amounts of computation over 1 to 32 heads", 1, len(set(work.values())))
best_bleu = max(bleu for _, bleu in ROWS_A.values())
lesson.states("6.2 (A)", "BLEU by which one head is worse than the best", 0.9, best_bleu - ROWS_A[1][1], within=1e-9)
lesson.states("6.2 (A)", "quality drops off with too many heads", True, ROWS_A[32][1] < best_bleu)

# %% [markdown]
# ## Is bigger better?
#
# The text says so of rows (C). The picture has perplexity (lower is better) and BLEU (higher is better) over the
# number of parameters as the table gives it; a line joins the rows that change one thing.

# %%
QUALITY = {  # perplexity and BLEU on newstest2013, table 3
    "base": (4.92, 25.8), "(B) d_k 16": (5.16, 25.1), "(B) d_k 32": (5.01, 25.4), "(C) N 2": (6.11, 23.7),
    "(C) N 4": (5.19, 25.3), "(C) N 8": (4.88, 25.5), "(C) d_model 256": (5.75, 24.5),
    "(C) d_model 1024": (4.66, 26.0), "(C) d_ff 1024": (5.12, 25.4), "(C) d_ff 4096": (4.75, 26.2),
    "big": (4.33, 26.4),
}  # fmt: skip
FAMILIES = {
    "layers": ["(C) N 2", "(C) N 4", "base", "(C) N 8"],
    "d_model": ["(C) d_model 256", "base", "(C) d_model 1024"],
    "d_ff": ["(C) d_ff 1024", "base", "(C) d_ff 4096"],
    "d_k": ["(B) d_k 16", "(B) d_k 32", "base"],
}
fig, panels = plt.subplots(1, 2, figsize=(7, 3.5))
for panel, (index, name) in zip(panels, ((0, "perplexity"), (1, "BLEU")), strict=True):
    for family, members in FAMILIES.items():
        sizes = [ROWS[member][1] for member in members]
        panel.plot(sizes, [QUALITY[member][index] for member in members], "o-", markersize=4, label=family)
    panel.plot(213, QUALITY["big"][index], "ks", label="big")
    panel.set_xlabel("parameters, millions")
    panel.set_ylabel(f"{name}, newstest2013")
panels[0].legend(fontsize=8)
fig.tight_layout()
plt.show()
plt.close("all")
for family, members in FAMILIES.items():
    perplexities, bleus = zip(*(QUALITY[member] for member in members), strict=True)
    falls = list(perplexities) == sorted(perplexities, reverse=True)
    rises = list(bleus) == sorted(bleus)
    print(f"{family:8} perplexity falls with each step: {falls}   BLEU rises with each step: {rises}")
    assert rises == (family != "layers")
    lesson.states("6.2 (B), (C)", f"larger {family}: lower perplexity at each step", True, falls)

# %% [markdown]
# In perplexity it holds for every step of every family. In BLEU it has one exception: eight layers score 25.5, less
# than the 25.8 of six. A few tenths of BLEU on one test set can be chance.
#
# The rest of section 6.2 in numbers of the table: dropout, and learned positions in place of sinusoids.

# %%
lesson.states("6.2 (D)", "no dropout (BLEU 24.6) is worse than base", True, QUALITY["base"][1] > 24.6)
lesson.states(
    "6.2 (E)", "learned positions: BLEU nearly that of base (within 0.1)", 25.7, QUALITY["base"][1], within=0.1001
)

# %% [markdown]
# ## What training cost: table 2
#
# The paper estimates its operations as training time × number of GPUs × 9.5 TFLOPS, which it takes for what a P100
# sustains (footnote in section 6.1).

# %%
HOUR, DAY, GPUS, TFLOPS = 3_600, 86_400, 8, 9.5e12
estimates = {"base": 12 * HOUR * GPUS * TFLOPS, "big": 3.5 * DAY * GPUS * TFLOPS}
lesson.states("table 2", "base: operations, 12 hours", 3.3e18, float(f"{estimates['base']:.1e}"))
lesson.states("table 2", "big: operations, 3.5 days", 2.3e19, float(f"{estimates['big']:.1e}"))

# %% [markdown]
# That is what the GPUs could have done in that time, not what the model needed. What it needed we can count:
# the operations of one step, times the number of steps. A rule of thumb gives nearly the same without counting: six
# operations for each parameter and token, two in the forward and four in the backward pass. (It holds here because
# the shared matrix, when it embeds, costs nothing, and when it answers, costs like any other. Source tokens pass
# the encoder and target tokens the decoder, so 25,000 counts once.)

# %%
STEPS = {"base": 100_000, "big": 300_000}
MODELS = {"base": base, "big": on_paper(**BIG)}
counted = {name: operations(MODELS[name], backward=True) * STEPS[name] for name in STEPS}
print(f"{'':5} {'table 2':>9} {'counted':>9} {'6·N·tokens':>11} {'counted / table':>16}")
for name, steps in STEPS.items():
    rule = 6 * counts[name] * 25_000 * steps
    share = counted[name] / estimates[name]
    print(f"{name:5} {estimates[name]:9.1e} {counted[name]:9.1e} {rule:11.1e} {share:16.0%}")
    assert 0.9 < rule / counted[name] < 1.1

fig, axes = plt.subplots(figsize=(7, 2.6))
axes.barh([-0.2, 0.8], [estimates[name] for name in STEPS], 0.38, color="tab:gray", label="time × GPUs × 9.5 TFLOPS")
axes.barh([0.2, 1.2], [float(counted[name]) for name in STEPS], 0.38, label="operations of the steps")
axes.set_yticks(range(2), STEPS)
axes.set_xscale("log")
axes.set_xlim(1e17, 4e19)
axes.set_xlabel("floating-point operations")
axes.legend(fontsize=7, loc="upper left")
axes.set_ylim(-0.6, 2.3)
fig.tight_layout()
plt.show()
plt.close("all")
assert {name: round(100 * counted[name] / estimates[name]) for name in STEPS} == {"base": 29, "big": 42}

# %% [markdown]
# If batches held 25,000 tokens on each side, as section 5.1 says, then base made some 29 % of these 9.5 TFLOPS and
# big some 42 %: larger matrices fill a GPU better. So the table says what the GPUs might have computed in that time.
# That is a fair way to compare its rows, which were all estimated so. But anyone who compares them with costs counted
# as 6·N·tokens, as is usual today, must bear in mind a factor of three and a half for base.
#
# Where the operations of a step go:

# %%
with FlopCounterMode(display=False) as counter:
    ids = torch.empty(1_000, 25, dtype=torch.long, device="meta")
    on_paper()(ids, ids)
names = {
    "output projection": ["output_projection"],
    "feed-forward": ["feed_forward"],
    "attention": ["self_attention", "cross_attention"],
}
by_module = counter.get_flop_counts()
total = counter.get_total_flops()
for part, endings in names.items():
    modules = [name for name in by_module if name.rpartition(".")[2] in endings]
    spent = sum(sum(by_module[name].values()) for name in modules)
    print(f"{part:18} {spent / total:.0%} of a forward pass")

# %% [markdown]
# ## Exercises

# %% tags=["exercises"]
lesson.exercise(
    "How many parameters has one decoder layer of base?",
    4_199_936,
    sum(parameter.numel() for parameter in base.decoder.layers[0].parameters()),
)
lesson.exercise(
    "Base with a shared vocabulary of 8,000: how many million parameters, rounded?",
    48,
    round(count(on_paper(src_vocab=8_000, tgt_vocab=8_000)) / 1e6),
)
lesson.exercise(
    "60 million parameters and 2 thousand million target tokens: how many operations, by the rule of thumb?",
    7.2e17,
    6 * 60e6 * 2e9,
)

# %%
lesson.end()
