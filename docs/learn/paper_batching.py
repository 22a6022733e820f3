# %% [markdown]
# # Which sentences go together
#
# *Attention Is All You Need*, section 5.1, says how text became batches: byte-pair encoding with one vocabulary for
# both languages, and sentence pairs of about the same length put together until a batch holds about 25,000 source and
# 25,000 target tokens. Here the same is done with glassformer's own tokenizer and batches, on a phrasebook
# that is generated on the spot, and we measure what the sorting is worth.
#
# After this lesson you can say how text becomes batches, what share of them is padding in which order, and why
# padding changes the time but not the result.
#
# What the paper states and what comes out again is folded with the code that holds it.

# %%
import json
import tempfile
from itertools import islice
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from lesson import Lesson

from glassformer import ModelConfig, TextConfig, Transformer
from glassformer.tasks import load_task
from glassformer.text.corpus.batches import collate, padding_fraction, plan_batches
from glassformer.text.corpus.prepare import prepare
from glassformer.text.tokenizer.bpe_training import learn_merges
from glassformer.text.tokenizer.tokenizer import Tokenizer, byte_label
from glassformer.training.objective.loss import smoothed_loss

torch.manual_seed(0)
lesson = Lesson("paper 5.1", "Attention Is All You Need, section 5.1: Training Data and Batching")

# %% [markdown]
# ## A vocabulary is learned
#
# Byte-pair encoding counts the pairs of neighbours in all words, makes the most frequent pair one symbol, and counts
# again. Watch it on these words; `glassformer trace "low low ..." --merges 6` prints the same. Which comes first?

# %% tags=["guess"]
line = "low low low lower lower newest widest wider"
merges = list(islice(learn_merges([line]), 6))
for number, merge in enumerate(merges):
    print(f"{number}  {' + '.join(map(byte_label, merge.pair)):8} {merge.counts[merge.pair]} times")
    print("   ", " │ ".join(" ".join(map(byte_label, word)) for word in merge.words))
trained = json.loads(Tokenizer.train("bpe", [line], 4 + 256 + 6).json)["model"]["merges"]
assert [list(merge.pair) for merge in merges] == trained, "the trainer finds the same"

# %% [markdown]
# In training nothing else happens, with more words and 8,000 merges. A text is cut later by the same merges, in the
# order in which they were learned.
#
# ## One vocabulary for two languages
#
# It starts from single characters (here from bytes) and ends when the vocabulary has the requested size. Frequent
# words end as one token, rare ones as several, and nothing is ever unknown. The paper's vocabulary for English and
# German has about 37,000 entries; for our 10,000 phrases 2,000 are plenty.

# %%
task = load_task("phrasebook-de")
scratch = tempfile.TemporaryDirectory()
text = prepare(
    lambda: iter(task.train[:10_000]), lambda: iter(task.valid[:10]), TextConfig(vocab_size=2_000),
    Path(scratch.name), source="lesson", report=print,
)  # fmt: skip
tokenizer, pairs = text.src_tokenizer, text.train

for phrase in (
    "in 5 hours",
    "in 5 Stunden",
    "3.5 nautical miles",
    "3,5 Seemeilen",
    "Monday",
    "Montag",
    "Mondlandung",
):
    print(f"{phrase:20} {' '.join(tokenizer.to_tokens(tokenizer.to_ids(phrase)))}")
assert len(tokenizer.to_ids("Montag")) == 1 < len(tokenizer.to_ids("Mondlandung"))
lesson.states("5.1", "source and target share one vocabulary", True, text.src_tokenizer is text.tgt_tokenizer)

# %% [markdown]
# Sharing pays where languages share strings: digits, names, "in". How much of the vocabulary does each side use?

# %%
used = {
    name: set(np.concatenate([side.ids(index) for index in range(len(pairs))]).tolist())
    for name, side in (("English", pairs.src_side), ("German", pairs.tgt_side))
}
both = used["English"] & used["German"]
for name, ids in used.items():
    print(f"{name:8} uses {len(ids):5,} of {tokenizer.size:,} entries, {len(both) / len(ids):.0%} of them shared")
assert set(tokenizer.to_ids("in 5")) <= both

# %% [markdown]
# ## Padding
#
# A batch is a rectangle: (nbatches, n_seq_src) for sources, (nbatches, n_seq_tgt) for targets. All its rows are as
# long as its longest sentence, and the rest is filled up with padding, on which the machine computes for nothing.
#
# Our lengths spread a good deal:

# %%
src_lengths, tgt_lengths = pairs.src_side.lengths, pairs.tgt_side.lengths
fig, axes = plt.subplots(figsize=(7, 3))
bins = np.arange(1, 40)
axes.hist([src_lengths, tgt_lengths], bins=bins, label=["English sources", "German targets"])
axes.set_xlabel("tokens, </s> counted")
axes.set_ylabel("sentences")
axes.legend()
assert min(side.max() / side.min() for side in (src_lengths, tgt_lengths)) > 5
fig.tight_layout()
plt.show()
plt.close("all")

# %% [markdown]
# `plan_batches` is the function that training uses. Its `bucket` says what counts as one length: 1 keeps exact
# lengths apart, 4 mixes 4 to 7 tokens, and so on. A bucket wider than the longest sentence holds them all, which
# makes the order random: that is our comparison. In each batch rows times the longest side may be at most
# `batch_tokens` cells.

# %%
EVERYTHING = 1_000
BATCH_TOKENS = 2_048


def plan(bucket: int):
    return plan_batches(src_lengths, tgt_lengths, BATCH_TOKENS, seed=1, epoch=1, bucket=bucket)


plans = {"random order": plan(EVERYTHING), **{f"buckets of {width}": plan(width) for width in (8, 4, 2, 1)}}
padding = {name: padding_fraction(src_lengths, tgt_lengths, batches) for name, batches in plans.items()}
for name, batches in plans.items():
    tokens = np.mean([src_lengths[batch].sum() for batch in batches])
    print(f"{name:13} {padding[name]:5.1%} padding   {len(batches):3} batches   {tokens:5.0f} source tokens in each")
assert abs(padding["random order"] - 2 / 3) < 0.05
assert 2.2 < len(plans["random order"]) / len(plans["buckets of 1"]) < 2.8

# %% [markdown]
# The same pairs, the same number of cells in a batch: in random order about two thirds of all cells are padding, and
# an epoch takes two and a half times as many batches. This is what such batches look like; dark cells are tokens.

# %%
fig, axes = plt.subplots(1, 3, figsize=(7, 3.5))
for panel, name in zip(axes, ("random order", "buckets of 4", "buckets of 1"), strict=True):
    batch = collate(pairs, plans[name][3])
    panel.imshow((batch.src_ids[:50] != 0), aspect="auto", cmap="Greys", vmin=0, vmax=1.4, interpolation="nearest")
    panel.set_title(f"{name}\n{padding[name]:.0%} padding in all", fontsize=9)
    panel.set_xlabel("source position")
axes[0].set_ylabel("sentence of one batch (first 50)")
fig.tight_layout()
plt.show()
plt.close("all")

# %% [markdown]
# Every pair stands in one batch and only one. Which pairs of one length meet, and in which order the batches come, is
# drawn anew in each epoch; only lengths are kept together.

# %%
for name, batches in plans.items():
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(pairs))), name
spread = [int(tgt_lengths[batch].max() - tgt_lengths[batch].min()) for batch in plans["buckets of 1"]]
spread_random = [int(tgt_lengths[batch].max() - tgt_lengths[batch].min()) for batch in plans["random order"]]
print(f"target lengths in one batch differ by {np.mean(spread):.1f} tokens")
print(f"in random order they differ by            {np.mean(spread_random):.1f} tokens")
lesson.states("5.1", "sorted by length, a batch mixes fewer lengths", True, np.mean(spread) < np.mean(spread_random))

# %% [markdown]
# ## Padding changes the time, not the result
#
# If masks are right, then a pair's loss does not depend on who else is in the batch. We put the shortest pair into
# a batch with the longest one, and alone into a batch of its own.

# %%
model = Transformer(
    ModelConfig.tiny(src_vocab=tokenizer.size, tgt_vocab=tokenizer.size, n_encoder_layers=2, n_decoder_layers=2)
).eval()
shortest, longest = int(np.argmin(src_lengths + tgt_lengths)), int(np.argmax(src_lengths + tgt_lengths))


def loss_of_first(indices: list[int]) -> float:
    """The loss of the first of these pairs, in the batch of all of them."""
    batch = collate(pairs, np.array(indices))
    with torch.no_grad():
        logits = model(batch.src_ids, batch.tgt_in_ids)
        loss, _, _ = smoothed_loss(logits[:1], batch.tgt_out_ids[:1], model.config.pad_id, 0.0)
    print(f"sources {tuple(batch.src_ids.shape)}, targets {tuple(batch.tgt_in_ids.shape)}: loss {float(loss):.6f}")
    return float(loss)


alone, together = loss_of_first([shortest]), loss_of_first([shortest, longest])
assert abs(alone - together) < 1e-4

# %% [markdown]
# ## 25,000 and 25,000 tokens
#
# The paper's batches are much larger than ours. With `batch_tokens` = 25,000 our 10,000 pairs would make only a
# handful of batches, with many lengths in each. A corpus of millions has enough pairs of every length; we imitate one
# by repeating our lengths a hundred times, and count the tokens that are not padding.

# %%
few = plan_batches(src_lengths, tgt_lengths, 25_000, seed=1, epoch=1)
assert len(few) < 10
assert min(np.ptp(src_lengths[batch]) for batch in few) > 5
many_src, many_tgt = np.tile(src_lengths, 100), np.tile(tgt_lengths, 100)
large = plan_batches(many_src, many_tgt, 25_000, seed=1, epoch=1)
src_tokens, tgt_tokens = (np.array([side[batch].sum() for batch in large]) for side in (many_src, many_tgt))
print(f"{len(many_src):,} pairs in {len(large)} batches, {padding_fraction(many_src, many_tgt, large):.1%} padding")
print(f"in a batch: {src_tokens.mean():,.0f} source tokens, {tgt_tokens.mean():,.0f} target tokens")
in_thousands = [int(np.median(side) / 1_000 + 0.5) for side in (src_tokens, tgt_tokens)]
lesson.states("5.1", "thousands of source and of target tokens in a batch, about", [25, 25], in_thousands, within=2)

# %% [markdown]
# Section 5.2 adds that the base model took 100,000 such steps, so it read about 2.5 thousand million target tokens.
# How often it saw each of its 4.5 million sentence pairs depends on how many tokens a sentence has, which the paper
# does not say. With 25 to 30 it comes to some twenty times:

# %%
target_tokens = 100_000 * 25_000
for tokens_per_sentence in (20, 25, 30):
    epochs = target_tokens / (4.5e6 * tokens_per_sentence)
    print(f"{tokens_per_sentence} tokens a sentence: {epochs:4.1f} epochs")
    assert tokens_per_sentence < 25 or 18 < epochs < 23

# %% [markdown]
# ## Exercises

# %% tags=["exercises"]
lengths = np.array([3, 3, 5, 5])
mixed, sorted_by_length = ([np.array(batch) for batch in plan] for plan in (([0, 2], [1, 3]), ([0, 1], [2, 3])))
lesson.exercise(
    "Four pairs, both sides of 3, 3, 5, 5 tokens, in batches of one short and one long pair: what share is padding?",
    0.2,
    padding_fraction(lengths, lengths, mixed),
    within=1e-9,
)
lesson.exercise(
    "And in batches of equal lengths?", 0.0, padding_fraction(lengths, lengths, sorted_by_length), within=1e-9
)
lesson.exercise(
    "4.5 million pairs of 20 target tokens, 25,000 a step: how many steps is one epoch?",
    3_600,
    round(4.5e6 * 20 / 25_000),
)

# %%
scratch.cleanup()
lesson.end()
