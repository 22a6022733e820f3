# %% [markdown]
# # Writing trees, and looking at the attention
#
# *Attention Is All You Need*, section 6.3, gives the model another task, to see whether it is good for more than
# translation: it reads an English sentence and writes its parse tree, that is, which words belong together. The last
# pages of the paper show what attention heads look at. Here both are done in small: a little grammar makes sentences
# and trees, the real model learns to parse them in some seconds, and then we look where its heads look.
#
# After this lesson you can write a tree as a sequence, judge a parser by F1, and tell by silencing a head whether a
# model uses what the head looks at.
#
# What the paper states and what comes out again is folded with the code that holds it. A line with ✗ shows a place
# where the paper slips: what it states, and what comes out.

# %%
import random
import tempfile
from collections import Counter
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from lesson import Lesson

from glassformer import DecodeConfig, ModelConfig, TextConfig, TrainConfig, Transformer, Translator, tracing
from glassformer.text.corpus.corpus import Pair
from glassformer.text.corpus.prepare import prepare
from glassformer.trace.palette import share_colours
from glassformer.training.loop.optimizer import adam_step, new_optimizer
from glassformer.training.loop.schedule import learning_rate
from glassformer.training.loop.update import accumulate_gradients
from glassformer.training.request.data import BatchStream

torch.manual_seed(0)
lesson = Lesson("paper 6.3", "Attention Is All You Need, section 6.3 and the attention visualisations")

# %% [markdown]
# ## Trees as sequences
#
# A tree becomes a sequence by writing brackets. A sentence (S) is a noun phrase (NP) and a verb phrase (VP); a noun
# phrase is an article (DT), perhaps an adjective (JJ), a noun (NN) and perhaps a prepositional phrase (PP). In our
# little English "of" and "in" belong to the noun before them, "with" and "by" to the verb. So a parser has to
# look at the word, and for the closing brackets far back. An opening bracket is written `NP_`, a closing one `_NP`.

# %%
WORDS = {
    "DT": ["the", "a", "every"],
    "JJ": ["old", "small", "green", "happy"],
    "NN": ["dog", "cat", "child", "teacher", "letter", "garden", "song", "river"],
    "VB": ["sees", "likes", "reads", "finds", "paints"],
    "IN": ["of", "in"],
    "BY": ["with", "by"],
}
dice = random.Random(0)


def word(tag: str) -> tuple:
    return (tag, dice.choice(WORDS[tag]))


def noun_phrase(depth: int) -> tuple:
    parts = [word("DT"), *([word("JJ")] if dice.random() < 0.3 else []), word("NN")]
    if depth and dice.random() < 0.4:
        parts.append(("PP", [word("IN"), noun_phrase(depth - 1)]))
    return ("NP", parts)


def sentence(depth: int = 1) -> tuple:
    verb_phrase = [word("VB"), noun_phrase(depth)]
    if dice.random() < 0.5:
        verb_phrase.append(("PP", [word("BY"), noun_phrase(depth - 1)]))
    return ("S", [noun_phrase(depth), ("VP", verb_phrase)])


def words(tree: tuple) -> list[str]:
    """The sentence: the leaves of the tree."""
    return [tree[1]] if isinstance(tree[1], str) else [leaf for part in tree[1] for leaf in words(part)]


def brackets(tree: tuple) -> list[str]:
    """The tree as a sequence; a word is written as its tag."""
    label, inside = tree
    if isinstance(inside, str):
        return [label]
    return [f"{label}_", *(token for part in inside for token in brackets(part)), f"_{label}"]


trees = [sentence() for _ in range(4_000)]
pairs = list(dict.fromkeys(Pair(" ".join(words(tree)), " ".join(brackets(tree))) for tree in trees))
training, held_out = pairs[:-200], pairs[-200:]
print(pairs[0].src)
print(pairs[0].tgt)

# %% [markdown]
# ## Longer than the input
#
# The section says that the output is much longer than the input, and raises the limit from input + 50 to input + 300.
# Each word gives one tag, and each phrase two brackets more. So the surplus grows with the number of phrases:

# %%
read, written = [len(words(tree)) for tree in trees], [len(brackets(tree)) for tree in trees]
surplus = [longer - shorter for longer, shorter in zip(written, read, strict=True)]
print(f"{sum(written) / sum(read):.2f} tokens for each word; the surplus is {min(surplus)} to {max(surplus)} tokens")
lesson.states("6.3", "the output is longer than the input, in every sentence here", True, min(surplus) > 0)

chain = ("NP", [("DT", "the"), ("NN", "dog")])  # the dog of the dog of the dog ...
while len(brackets(chain)) <= len(words(chain)) + 50:
    chain = ("NP", [("DT", "the"), ("NN", "dog"), ("PP", [("IN", "of"), chain])])
print(f"phrases inside phrases: from {len(words(chain))} words on, input + 50 can be too short")

fig, axes = plt.subplots(figsize=(7, 2.8))
axes.plot(read, written, ".", markersize=3)
axes.plot([5, max(read)], [5, max(read)], "k:", linewidth=0.8, label="as long as the input")
axes.set_xlabel("words of the sentence")
axes.set_ylabel("tokens of the tree")
axes.legend(fontsize=8)
fig.tight_layout()
plt.show()
plt.close("all")

# %% [markdown]
# ## Learning it
#
# The paper's parser has four layers and `d_model` = 1024; the other sizes stay those of base. Ours has one layer and
# `d_model` = 64, and some seconds. Nothing in the model is made for trees: that brackets must match, and that there
# are as many tags as words, it has to learn from examples.

# %%
with torch.device("meta"):
    papers = Transformer(
        ModelConfig.base(d_model=1024, n_encoder_layers=4, n_decoder_layers=4, src_vocab=16_000, tgt_vocab=16_000)
    )
papers_count = sum(parameter.numel() for parameter in papers.parameters())
print(f"the paper's parser, with 16,000 entries and one shared matrix: {papers_count:,} parameters")

scratch = tempfile.TemporaryDirectory()
text = prepare(
    lambda: iter(training), lambda: iter(held_out), TextConfig(tokenizer="words", joint=False, vocab_size=100),
    Path(scratch.name), source="lesson", report=print,
)  # fmt: skip
torch.manual_seed(0)
sizes = {"d_model": 64, "n_heads": 4, "d_ff": 128, "n_encoder_layers": 1, "n_decoder_layers": 1, "max_length": 256}
vocabularies = {"src_vocab": text.src_tokenizer.size, "tgt_vocab": text.tgt_tokenizer.size, "tie_embeddings": "none"}
model = Transformer(ModelConfig.from_mapping({**sizes, **vocabularies, "norm": "pre", "dropout": 0.0})).train()
print(f"ours: {sum(p.numel() for p in model.parameters()):,} parameters")
settings = TrainConfig(batch_tokens=512, schedule="inverse_sqrt", peak_rate=4e-3, warmup=40, label_smoothing=0.0)
optimizer, stream = new_optimizer(model, settings), BatchStream(text.train, settings, 1, 0)
losses = []
for update in range(1, 381):
    measured = accumulate_gradients(model, [stream.next()], settings)
    adam_step(model, optimizer, learning_rate(update, settings, 64))
    losses.append(measured.nll / measured.tokens)
print(f"loss of the first update {losses[0]:.2f}, of the last ten {sum(losses[-10:]) / 10:.3f} nats per token")

# %% [markdown]
# ## Judging trees
#
# Parsers are judged by F1 over phrases: each pair of brackets says that the words from here to there are an NP, a VP
# and so on. Precision is the part of the written phrases that are right, recall the part of the right phrases that
# were written, and F1 their harmonic mean.


# %%
def phrases(tokens: list[str]) -> Counter | None:
    """The phrases (label, first word, last word) of a bracket sequence, or None when its brackets do not match."""
    found, still_open, place = Counter(), [], 0
    for token in tokens:
        if token.endswith("_"):
            still_open.append((token[:-1], place))
        elif token.startswith("_"):
            if not still_open or still_open[-1][0] != token[1:]:
                return None
            found[(*still_open.pop(), place - 1)] += 1
        else:
            place += 1
    return None if still_open else found


translator = Translator(model, text.src_tokenizer, text.tgt_tokenizer, DecodeConfig(beam=1, max_length_b=300))
outputs = translator.translate([pair.src for pair in held_out])
right = written_phrases = wanted = exact = well_formed = as_many_tags = 0
for output, pair in zip(outputs, held_out, strict=True):
    mine, theirs = phrases(output.text.split()), phrases(pair.tgt.split())
    exact += output.text == pair.tgt
    well_formed += mine is not None
    tags = [token for token in output.text.split() if "_" not in token]
    as_many_tags += len(tags) == len(pair.src.split())
    right += (mine & theirs).total() if mine else 0
    written_phrases += mine.total() if mine else 0
    wanted += theirs.total()
precision, recall = right / written_phrases, right / wanted
f1 = 2 * precision * recall / (precision + recall)
print(f"of {len(held_out)} unseen sentences")
print(f"  brackets match      {well_formed / len(held_out):6.1%}")
print(f"  as many tags as words {as_many_tags / len(held_out):4.1%}")
print(f"  whole tree right    {exact / len(held_out):6.1%}")
print(f"  F1 over phrases     {f1:6.1%}   (what is not well formed counts as no phrase at all)")
assert well_formed > 0.95 * len(held_out)
assert f1 > 0.9

# %% [markdown]
# That brackets must match has been learned. What goes wrong, and where? The curve shows the trees that are right by
# the length of the sentence.

# %%
BINS = ((5, 7), (8, 10), (11, 13), (14, 30))
by_length, wrong_counts = {}, 0
for output, pair in zip(outputs, held_out, strict=True):
    n_words = len(pair.src.split())
    name = next(f"{least} to {most}" for least, most in BINS if least <= n_words <= most)
    by_length.setdefault(name, []).append(output.text == pair.tgt)
    tags = sum("_" not in token for token in output.text.split())
    wrong_counts += output.text != pair.tgt and tags != n_words
by_length = {f"{a} to {b}": by_length.get(f"{a} to {b}", []) for a, b in BINS}
rates = {name: 100 * sum(found) / len(found) for name, found in by_length.items() if found}
fig, axes = plt.subplots(figsize=(7, 2.6))
axes.plot(list(rates), list(rates.values()), "o-")
axes.set_xlabel("words of the sentence")
axes.set_ylabel("% of trees that are right")
axes.set_ylim(0, 103)
fig.tight_layout()
plt.show()
plt.close("all")
wrong = len(held_out) - exact
for name, rate in rates.items():
    print(f"{name:8} words: {rate:5.1f} % of {len(by_length[name])} trees are right")
print(f"{wrong_counts} of the {wrong} wrong trees have too many or too few tags")
shortest, *_, longest = rates.values()
assert longest < shortest
assert wrong_counts > wrong / 2

# %% [markdown]
# Most wrong trees have too many or too few tags: the model loses count, and of the longest sentences fewer are right
# than of the shortest.
#
# ## Where the heads look
#
# The paper shows its heads one sentence at a time. Here is the cross-attention of our only decoder layer for one
# unseen sentence, (h, n_seq_tgt, n_seq_src): each row is a token that was written, each column a word that was read.

# %%
correct = [pair for output, pair in zip(outputs, held_out, strict=True) if output.text == pair.tgt]
shown = min((pair for pair in correct if "PP_" in pair.tgt), key=lambda pair: len(pair.tgt))
best = translator.translate([shown.src], attention=True)[0]
weights = best.hypotheses[0].attention[0]
fig, panels = plt.subplots(1, 4, figsize=(9, 4.8), sharey=True)
for head, panel in enumerate(panels):
    panel.imshow(weights[head], cmap=share_colours(), vmin=0, vmax=1, aspect="auto")
    panel.set_title(f"head {head}", fontsize=9)
    panel.set_xticks(range(weights.shape[2]), best.source_tokens, rotation=90, fontsize=7)
panels[0].set_yticks(range(weights.shape[1]), best.hypotheses[0].tokens, fontsize=7)
panels[0].set_ylabel("token that was written")
fig.supxlabel("word that was read", fontsize=9)
fig.tight_layout()
plt.show()
plt.close("all")

# %% [markdown]
# One sentence can mislead. Over many sentences we can average: when a certain token is written, how much of a head's
# attention goes to each kind of word? A head that looked at everything alike would give each kind as much as it
# fills of the sentences; we divide by that share, so that 1 means "no more than by chance".

# %%
KINDS = [*WORDS, "</s>"]
TOKENS = ["NP_", "VP_", "PP_", *WORDS, "_NP", "_VP", "_PP"]
kind_of = {entry: tag for tag, entries in WORDS.items() for entry in entries} | {"</s>": "</s>"}
attention_sum = torch.zeros(4, len(TOKENS), len(KINDS))
chance = torch.zeros(len(TOKENS), len(KINDS))
for translation in translator.translate([pair.src for pair in correct], attention=True):
    tokens, weights = translation.hypotheses[0].tokens, translation.hypotheses[0].attention[0]
    columns = torch.tensor([KINDS.index(kind_of[entry]) for entry in translation.source_tokens])
    share = torch.bincount(columns, minlength=len(KINDS)) / len(columns)
    for row, token in enumerate(tokens):
        if token in TOKENS:
            chance[TOKENS.index(token)] += share
            attention_sum[:, TOKENS.index(token)].index_add_(1, columns, weights[:, row])
times_chance = attention_sum / chance.clamp(min=1e-9)

fig, panels = plt.subplots(1, 4, figsize=(9, 3.8), sharey=True, layout="constrained")
for head, panel in enumerate(panels):
    picture = panel.imshow(times_chance[head], cmap=share_colours(), vmin=0, vmax=6, aspect="auto")
    panel.set_title(f"head {head}", fontsize=9)
    panel.set_xticks(range(len(KINDS)), KINDS, rotation=90, fontsize=7)
panels[0].set_yticks(range(len(TOKENS)), TOKENS, fontsize=7)
panels[0].set_ylabel("token that is written")
fig.supxlabel("kind of word that is read", fontsize=9)
fig.colorbar(picture, ax=panels, label="attention, in times of chance")
plt.show()
plt.close("all")
for token in ("PP_", "BY", "_PP", "_VP"):
    head, kind = divmod(int(times_chance[:, TOKENS.index(token)].argmax()), len(KINDS))
    most = float(times_chance[head, TOKENS.index(token), kind])
    print(f"when {token:4} is written, head {head} gives {KINDS[kind]:4} {most:.1f} times its share")

# %% [markdown]
# ## What the heads are good for
#
# That a head looks somewhere does not yet say that the model uses what it sees. This can be tested: an edit sets the
# output of one head to zero, in the very model that translates, and the same sentences are parsed again.


# %%
def without(head: int):
    """An edit that silences one head: (nbatches, h, n_seq_tgt, d_v)."""

    def edit(heads: torch.Tensor) -> torch.Tensor:
        heads[:, head] = 0.0
        return heads

    return edit


def exact_match(address: str | None = None, head: int = 0) -> float:
    """Percent of the held-out trees that are all right, with one head silenced."""
    edits = {address: without(head)} if address else {}
    with tracing(model, edits=edits, only="nothing"):
        found = translator.translate([pair.src for pair in held_out])
    return 100 * sum(one.text == pair.tgt for one, pair in zip(found, held_out, strict=True)) / len(held_out)


whole = exact_match()
addresses = {
    "decoder, self-attention": "decoder.layers.0.self_attention.heads",
    "decoder, cross-attention": "decoder.layers.0.cross_attention.heads",
}
left = {name: [exact_match(address, head) for head in range(4)] for name, address in addresses.items()}
fig, axes = plt.subplots(figsize=(7, 3))
for offset, (name, values) in zip((-0.2, 0.2), left.items(), strict=True):
    axes.bar([head + offset for head in range(4)], values, 0.38, label=name)
    print(f"{name:26} without head 0, 1, 2, 3: {values} % right")
axes.axhline(whole, color="black", linewidth=0.8, label="all heads")
axes.set_xticks(range(4), [f"without head {head}" for head in range(4)])
axes.set_ylabel("% of trees that are right")
axes.set_ylim(0, 115)
axes.legend(fontsize=8, loc="upper left", ncols=3)
fig.tight_layout()
plt.show()
plt.close("all")
assert min(min(values) for values in left.values()) < 0.8 * whole

# %% [markdown]
# The paper's figures are about this: nobody told the heads to divide the work, and still they come to do different
# things. Silencing one is a stronger test than looking.
#
# ## The results: table 4
#
# The numbers are F1 on section 23 of the Wall Street Journal treebank. Two sentences of the section say how the
# Transformer stands among the other parsers.

# %%
WSJ_ONLY = {"Vinyals & Kaiser 2014": 88.3, "Petrov 2006 (BerkeleyParser)": 90.4, "Zhu 2013": 90.4, "Dyer 2016": 91.7}
MORE_DATA = {"Zhu 2013": 91.3, "Huang & Harper 2009": 91.3, "McClosky 2006": 92.1, "Vinyals & Kaiser 2014": 92.1}
OTHER = {"Luong 2015, multi-task": 93.0, "Dyer 2016, generative": 93.3}
TRANSFORMER = {"WSJ only": 91.3, "semi-supervised": 92.7}

berkeley = WSJ_ONLY["Petrov 2006 (BerkeleyParser)"]
lesson.states("6.3", "better than the BerkeleyParser, with WSJ alone", True, TRANSFORMER["WSJ only"] > berkeley)
lesson.states(
    "6.3",
    "semi-supervised: better than all others of its kind",
    True,
    max(MORE_DATA.values()) < TRANSFORMER["semi-supervised"],
)
better = [name for name, f1 in {**MORE_DATA, **OTHER}.items() if f1 > TRANSFORMER["semi-supervised"]]
print("better than the best Transformer in table 4:", better)

# %% [markdown]
# The section says that its results are better than all reported before with one exception, the Recurrent Neural
# Network Grammar (Dyer et al. 2016). Table 4 has a second.

# %%
lesson.slips(
    "6.3",
    "models in table 4 that are better than the Transformer",
    ["Dyer 2016, generative"],
    better,
    words="better results than all previously reported models with the exception of the Recurrent Neural Network"
    " Grammar",
    why="Table 4 also lists Luong et al. 2015 with 93.0, above the Transformer's 92.7.",
)

# %% [markdown]
# **See it live:** [the living page](../../page.md) has a switch below each head of the bundled translator.
# `glassformer explore "I love you, too." --open`; behind its address, `#decoder.layers.0.cross_attention.weights`.
#
# ## Exercises

# %% tags=["exercises"]
small_tree = ("S", [("NP", [("DT", "the"), ("NN", "dog")]), ("VP", [("VB", "sees"), ("NP", [("NN", "it")])])])
lesson.exercise(
    "How many tokens has the tree of: (the dog)NP (sees (it)NP)VP, as one S?", 12, len(brackets(small_tree))
)
lesson.exercise(
    "A parser wrote 8 phrases, 6 of them right; there are 10. What is F1?",
    0.667,
    2 * (6 / 8) * (6 / 10) / (6 / 8 + 6 / 10),
    within=5e-4,
)
lesson.exercise(
    "Do the brackets of S_ NP_ DT NN _VP _S match?",
    False,
    phrases(["S_", "NP_", "DT", "NN", "_VP", "_S"]) is not None,
)

# %%
scratch.cleanup()
lesson.end()
