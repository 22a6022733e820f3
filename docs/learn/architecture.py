# %% [markdown]
# # The whole architecture, part one: what enters the encoder
#
# *Transformer* (text 004) goes through the Transformer of *Attention Is All You Need* part by part. This page takes
# its first steps with the real modules of glassformer: from text to tokens and ids, from ids to vectors, and from
# vectors to vectors that know their place.
#
# After this lesson you can say what a tokenizer, an embedding and a position vector do to a sentence, show that
# without positions its order is lost, and tell the kinds of positions apart.
#
# What the text states and what comes out again is folded with the code that holds it. A line with ✗ shows a place
# where the text slips: what it states, and what comes out. Part two continues with attention and the rest of the
# encoder, part three with the decoder and with sampling.

# %%
import itertools

import matplotlib.pyplot as plt
import torch
from lesson import Lesson

from glassformer import ModelConfig, Transformer
from glassformer.explain import resolved_axes
from glassformer.explain.recording.recording import record_pass
from glassformer.model.embedding import Embedding
from glassformer.model.positions import (
    AlibiPositions,
    LearnedPositions,
    Positions,
    RelativePositions,
    RotaryPositions,
    SinusoidalPositions,
)
from glassformer.tasks import load_task
from glassformer.text import BOS_ID, EOS_ID, PAD_ID, UNK_ID, Tokenizer
from glassformer.training.objective.loss import smoothed_loss

torch.manual_seed(0)
lesson = Lesson("004", "Transformer")

# %% [markdown]
# The paper's base model is what the default configuration describes: an encoder and a decoder, each a stack of
# layers. It is built here without values, for its sizes alone.

# %%
with torch.device("meta"):
    paper = Transformer(ModelConfig())
layers = len(paper.encoder.layers), len(paper.decoder.layers)
lesson.states("Transformer", "encoder and decoder layers of a typical model", (6, 6), layers)

# %% [markdown]
# ## Tokens
#
# A tokenizer cuts a text into pieces. The plainest one cuts at spaces and takes punctuation as pieces of its own:
# `words` in our configuration. Two others start from small pieces and join what often stands together:
# byte-level BPE (Byte Pair Encoding) and WordPiece. All are trained here on 4,000 English phrases (dates, prices,
# measures) and then read 500 phrases that they have never seen. What is in no vocabulary becomes `<unk>`, for
# *unknown*; a `▁` is a space, and `##` marks a piece that continues the word before it.

# %%
phrasebook = load_task("phrasebook-de")
read, unseen = [pair.src for pair in phrasebook.train[:4000]], [pair.src for pair in phrasebook.test[:500]]
tokenizers = {kind: Tokenizer.train(kind, read, 600) for kind in ("words", "bpe", "wordpiece")}
unknown = {}
print("tokenizer   entries   tokens a phrase   unknown   'I love cream crackers'")
for kind, tokenizer in tokenizers.items():
    rows = tokenizer.to_ids_batch(unseen)
    tokens = sum(map(len, rows))
    unknown[kind] = sum(row.count(UNK_ID) for row in rows) / tokens
    pieces = " ".join(tokenizer.to_tokens(tokenizer.to_ids("I love cream crackers")))
    print(f"{kind:11} {tokenizer.size:7} {tokens / len(rows):17.1f} {unknown[kind]:9.1%}   {pieces}")
fewer = max(unknown["bpe"], unknown["wordpiece"]) < unknown["words"]
lesson.states("Embedding", "BPE and WordPiece leave fewer words unknown than spaces do", True, fewer)

# %% [markdown]
# The plain tokenizer misses words because there is no end to them: the more text it reads, the more entries it
# needs. The subword vocabularies stay as large as they were told to be.

# %%
naive = Tokenizer.train("words", read, 100_000)
counts, seen, entries = range(100, len(read) + 1, 100), set(), []
for count in counts:
    seen.update(number for row in naive.to_ids_batch(read[count - 100 : count]) for number in row)
    entries.append(len(seen))
fig, ax = plt.subplots(figsize=(7, 2.8))
ax.plot(counts, entries, label="entries that splitting at spaces needs")
ax.axhline(tokenizers["bpe"].size, color="tab:orange", label="entries of the BPE vocabulary")
ax.set(xlabel="phrases read", ylabel="entries", ylim=(0, None))
ax.legend()
plt.show()
plt.close("all")
lesson.states("Embedding", "the list of whole words outgrows BPE's", True, entries[-1] > tokenizers["bpe"].size)

# %% [markdown]
# A vocabulary gives each piece a number of its own; the text's example numbers are 101 to 104.
#
# The text's later table of word vectors shows a sentence of six words, without its full stop. By the rule that the
# text gives first, the full stop is a token too.

# %%
crackers = Tokenizer.train("words", ["I love cream crackers"], 100)
ids = crackers.to_ids("I love cream crackers")
print(dict(zip(crackers.to_tokens(ids), ids, strict=True)), "after the control tokens", crackers.to_tokens(range(4)))
lesson.states("Embedding", "different ids for the four words of the example", 4, len(set(ids)))

sentence = "I love eating apples and bananas."
plain = Tokenizer.train("words", [sentence], 100)
print(plain.to_tokens(plain.to_ids(sentence)))
assert plain.to_tokens(plain.to_ids(sentence))[-1] == "."

# %% [markdown]
# ## Embedding lookup
#
# The embedding is a matrix with one row for each id; to look up an id is to read its row. The text's example has
# 100,000 rows of 512 numbers. Its "101st row" has to be the row with index 101: counted from one it is the 102nd.

# %%
large = Embedding(ModelConfig(src_vocab=100_000, tgt_vocab=100_000), 100_000).tokens
vector = large(torch.tensor([101]))[0]
lesson.states("Step 1", "the embedding matrix", (100_000, 512), tuple(large.weight.shape))
lesson.states("Step 1", "numbers in the vector of id 101", 512, len(vector))
lesson.states("Step 1", "the vector is the row of that index", large.weight[101], vector)
del large

# %% [markdown]
# Wider vectors hold more and cost more. Twice the width is twice the embedding, and four times the layers:

# %%
print("width   parameters of the embedding   of the 6 + 6 layers")
grown = []
for d_model in (256, 512, 1024):
    with torch.device("meta"):
        model = Transformer(ModelConfig(src_vocab=100_000, tgt_vocab=100_000, d_model=d_model, d_ff=4 * d_model))
    inner = sum(weight.numel() for stack in (model.encoder, model.decoder) for weight in stack.parameters())
    print(f"{d_model:5} {model.src_embedding.tokens.weight.numel():29,} {inner:21,}")
    grown.append((model.src_embedding.tokens.weight.numel(), inner))
for (narrow, layers), (wide, wide_layers) in itertools.pairwise(grown):
    assert wide == 2 * narrow
    assert 3.9 < wide_layers / layers < 4.0

# %% [markdown]
# ## Words that are used alike
#
# The text's table gives *apples* and *bananas* nearly the same vector. The cosine of the angle between two vectors
# says how alike they point: 1 is the same direction, 0 is unrelated.

# %%
table = {
    "I": [0.12, -0.05, 0.33], "love": [0.51, 0.22, -0.11], "eating": [0.09, 0.47, -0.02],
    "apples": [0.62, 0.13, 0.77], "and": [-0.03, 0.08, 0.04], "bananas": [0.60, 0.15, 0.75],
}  # fmt: skip


def cosines(word, vectors):
    """The cosine of each other word's vector with that of ``word``, largest first."""
    own = torch.tensor(vectors[word])
    found = {
        other: round(float(torch.cosine_similarity(own, torch.tensor(vector), dim=0)), 3)
        for other, vector in vectors.items()
        if other != word
    }
    return dict(sorted(found.items(), key=lambda item: -item[1]))


print("apples:", cosines("apples", table))
lesson.states("Step 1, table", "nearest to apples", "bananas", next(iter(cosines("apples", table))))

# %% [markdown]
# No one puts such likeness in. Embeddings start at random, and training moves words together that are used alike. A
# small model shows it: it learns to answer "I like Apple" with "a fruit" and "I like BMW" with "a car", while weight
# decay lets fade what the answers do not need. The vectors of its eight names are drawn before and after, in the two
# directions in which they differ most.

# %%
fruits, cars = ["Apple", "Banana", "Cherry", "Mango"], ["BMW", "Toyota", "Fiat", "Volvo"]
questions = [f"I like {name}" for name in fruits + cars]
answers = ["a fruit"] * 4 + ["a car"] * 4
names = Tokenizer.train("words", questions + answers, 100)
src_ids = torch.tensor([[*names.to_ids(text), EOS_ID] for text in questions])
tgt_in_ids = torch.tensor([[BOS_ID, *names.to_ids(text)] for text in answers])
tgt_out_ids = torch.tensor([[*names.to_ids(text), EOS_ID] for text in answers])


def vectors_of(model):
    """The embedding of each name."""
    return {name: model.src_embedding.tokens.weight[names.to_ids(name)[0]].tolist() for name in fruits + cars}


small = {"d_model": 32, "n_heads": 2, "d_ff": 64, "n_encoder_layers": 1, "n_decoder_layers": 1, "dropout": 0.0,
         "tie_embeddings": "none"}  # fmt: skip
model = Transformer(ModelConfig(src_vocab=names.size, tgt_vocab=names.size, norm="pre", max_length=32, **small))
before = vectors_of(model)
adam = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=1.0)
for _ in range(200):
    loss, _, tokens = smoothed_loss(model(src_ids, tgt_in_ids), tgt_out_ids, PAD_ID, smoothing=0.1)
    adam.zero_grad()
    (loss / tokens).backward()
    adam.step()
after = vectors_of(model)

fig, axes = plt.subplots(1, 2, figsize=(7, 3.2))
for ax, vectors, title in zip(axes, (before, after), ("before training", "after 200 updates"), strict=True):
    points = torch.tensor(list(vectors.values()))
    centred = points - points.mean(dim=0)
    plane = centred @ torch.linalg.svd(centred).Vh[:2].T
    for name, (x, y) in zip(vectors, plane.tolist(), strict=True):
        ax.scatter(x, y, color="tab:red" if name in fruits else "tab:blue", alpha=0.5)
        if title == "before training":
            ax.annotate(name, (x, y), xytext=(5, 3), textcoords="offset points", fontsize=8)
    ax.set(title=title, xlabel="first direction", ylabel="second direction")
    ax.axis("equal")
    ax.margins(0.3)
for group in (fruits, cars):  # by now the names of a kind lie on top of each other
    x, y = torch.stack([plane[list(after).index(name)] for name in group]).mean(dim=0).tolist()
    axes[1].annotate("\n".join(group), (x, y), xytext=(0, 12), textcoords="offset points", fontsize=8, ha="center")
fig.tight_layout()
plt.show()
plt.close("all")
for name, alike in (("Apple", fruits), ("BMW", cars)):
    print(f"{name} before:", cosines(name, before))
    print(f"{name} after: ", cosines(name, after))
    lesson.states(
        "Step 1", f"the three nearest to {name}", sorted(set(alike) - {name}), sorted(list(cosines(name, after))[:3])
    )

# %% [markdown]
# ## Why positions are needed
#
# Attention and the feed-forward network treat all places alike. To see it, a model with learned positions gets its
# source table set to zero, and reads "I love cream crackers" and "love cream I crackers". What it would write next
# is the same for both, up to rounding. With the paper's table of sines and cosines it is not.

# %%
sizes = {"src_vocab": crackers.size, "tgt_vocab": crackers.size, "d_model": 64, "n_heads": 4, "d_ff": 128,
         "n_encoder_layers": 2, "n_decoder_layers": 2, "max_length": 64}  # fmt: skip
one, other = (torch.tensor([crackers.to_ids(text)]) for text in ("I love cream crackers", "love cream I crackers"))
start = torch.tensor([[BOS_ID]])


def difference(model):
    """The largest difference between the first logits after the one order of words and after the other."""
    first, second = (record_pass(model, ids, start)["output_projection.logits"] for ids in (one, other))
    return float((first - second).abs().max())


without = Transformer(ModelConfig(positions="learned", **sizes))
torch.nn.init.zeros_(without.src_embedding.positions.table)
model = Transformer(ModelConfig(**sizes))
print(f"difference with positions {difference(model):.2f}, without {difference(without):.1e}")
lesson.states("Step 1", "difference of the two orders without positions", 0.0, difference(without), within=1e-5)
lesson.states("Step 1", "with positions the model tells them apart", True, difference(model) > 0.01)

# %% [markdown]
# ## The paper's table, and Z = X + P
#
# Position `pos` gets a vector of width d, in which dimensions 2i and 2i + 1 hold the sine and the cosine of
# pos / 10000^(2i/d). The text counts i from 0 to d/2 - 1 and gives two examples; here the dimensions of an i are
# searched for in the real table.

# %%
sines = SinusoidalPositions(ModelConfig(d_model=512)).table[:200].double()


def dimensions(i):
    """Where the table holds the sine and the cosine of pos / 10000^(2i/512)."""
    angle = torch.arange(200, dtype=torch.float64) / 10_000 ** (2 * i / 512)
    found = [(sines - wave[:, None]).abs().amax(dim=0) < 1e-6 for wave in (angle.sin(), angle.cos())]
    return tuple(int(where.nonzero()) for where in found)


lesson.states("Step 2", "dimensions of i = 0", (0, 1), dimensions(0))
lesson.states("Step 2", "dimensions of i = 210", (420, 421), dimensions(210))
lesson.states("Step 2", "the last i, d/2 - 1, has the last dimensions", (510, 511), dimensions(512 // 2 - 1))

# %% [markdown]
# Z is the sum of both vectors of each token. The text's letters for its three axes are B (sentences in the batch), N
# (tokens in each) and D (width); glassformer names each axis with a word.

# %%
LETTERS = {"batch": "B", "src": "N", "d_model": "D"}
trace = record_pass(model, one, start)
for step in trace.select("src_embedding.*"):
    words = resolved_axes(step)
    print(f"{step.address:32} {' × '.join(LETTERS[word] for word in words):10} ({', '.join(words)}) = {step.shape}")
x, p, z = (trace[f"src_embedding.{name}"] for name in ("scaled", "position_vectors", "with_positions"))
lesson.states("Step 2", "the size of Z, B × N × D", (1, 4, 64), tuple(z.shape))
lesson.states("Step 2", "Z = X + P", x + p, z)

# %% [markdown]
# The text calls it "a process of weighted summation". Nothing is weighted: each part counts once. The X in the sum is
# the looked-up vector times √d_model, as in section 3.4 of the paper. The text leaves this factor out, and with
# `scale_embedding = false` so does glassformer.

# %%
parts = torch.stack([x.flatten(), p.expand_as(x).flatten()], dim=1)
weights = torch.linalg.lstsq(parts.double(), z.flatten().double()[:, None]).solution.flatten()
print("weights of X and P in Z, solved for:", [round(weight, 4) for weight in weights.tolist()])
lesson.slips(
    "Step 2", "weights of X and P in Z", "chosen", [round(weight, 4) for weight in weights.tolist()],
    words="a process of weighted summation between the two types of vectors",
    why="It is a plain sum, as the text's own z = x + p says.",
)  # fmt: skip

# %% [markdown]
# ## The kinds of positions
#
# Adding the paper's table is one way. The text names three others: a **learned** table, **relative** positions (Shaw
# et al. 2018: a learned vector for each distance is added to keys and values) and **rotary** ones (RoPE, Su et al.
# 2021: queries and keys are turned by an angle that grows with the position). glassformer has one more, **ALiBi**
# (Press et al. 2022: the farther a key, the more is taken off its score).
#
# For the picture every position gets the same word, so that all that is left is what the positions add to the product
# of a query and a key. A row is a query's position, a column a key's. Where the colour stays the same along each
# diagonal, the product depends on the distance of the two alone.

# %%
n, config = 24, ModelConfig(d_model=64, n_heads=1, max_length=64, relative_clip=8)
q, k = torch.randn(2, 1, 1, 1, 64)
rotary, whole = RotaryPositions(config), Positions.from_length(n, torch.device("cpu"))
turned_q, turned_k = (rotary(vector.expand(1, 1, 64, 64), torch.arange(64))[0, 0] for vector in (q, k))
waves, learned = SinusoidalPositions(config).table[:n], LearnedPositions(config).table[:n].detach()
products = {
    "sinusoidal": waves @ waves.T,
    "learned, untrained": learned @ learned.T,
    "relative": RelativePositions(config).products(q.expand(1, 1, n, 64), whole)[0, 0].detach(),
    "rotary": turned_q[:n] @ turned_k[:n].T,
    "alibi": AlibiPositions(config)(whole)[0],
}
assert {name.partition(",")[0] for name in products} == set(ModelConfig.choices("positions"))


def spread(matrix):
    """How much the values along one diagonal differ, at most."""
    diagonals = [matrix.diagonal(offset) for offset in range(1 - len(matrix), len(matrix))]
    return float(max(values.max() - values.min() for values in diagonals))


fig, axes = plt.subplots(1, len(products), figsize=(11, 2.6))
for ax, (name, matrix) in zip(axes, products.items(), strict=True):
    ax.imshow(matrix)
    ax.set(title=name, xlabel="position of the key")
    print(f"{name:20} largest difference along a diagonal {spread(matrix):.5f}")
axes[0].set_ylabel("position of the query")
fig.tight_layout()
plt.show()
plt.close("all")
differ = spread(products["rotary"])
lesson.states("Step 2", "RoPE is relative: products of one distance differ by", 0.0, differ, within=1e-4)
later = turned_q[40:64] @ turned_k[40:64].T
lesson.states("Step 2", "RoPE is relative: the same 40 positions later", products["rotary"], later, within=1e-4)

# %% [markdown]
# The text's reason to prefer RoPE is that a sum may bend the meaning of the word's vector. A rotation changes its
# direction but keeps its length; the sum keeps neither.

# %%
lesson.states("Step 2", "RoPE keeps a vector's length", q.norm().expand(64), turned_q.norm(dim=-1), within=1e-4)
lengths = ((x + p).norm(dim=-1) / x.norm(dim=-1))[0].tolist()
print("length of Z over length of X:", ", ".join(f"{length:.2f}" for length in lengths))
assert all(abs(length - 1) > 0.01 for length in lengths)

# %% [markdown]
# Which of these it is to be is one value of the configuration, `model.positions`; part three trains with each.
#
# **See it live:** [the living page](../../page.md) shows how the tokenizer cut a sentence of yours, and each vector
# that enters the encoder. `glassformer explore "I love you, too." --open`; behind its address,
# `#src_embedding.with_positions` leads to Z.
#
# ## Exercises

# %% tags=["exercises"]
lesson.exercise(
    "The embedding of 100,000 entries and width 512: how many million numbers?",
    51.2,
    paper.src_embedding.tokens.weight.shape[1] * 100_000 / 1e6,
)
lesson.exercise(
    "Which two of 512 dimensions turn by 1 / 10,000^(100/512) radians a position?", (100, 101), dimensions(50)
)
lesson.exercise(
    "For which of the kinds is the product of a query and a key the same for each distance, wherever the two stand?",
    ["sinusoidal", "relative", "rotary", "alibi"],
    [name for name, matrix in products.items() if spread(matrix) < 1e-3],
)

# %%
lesson.end()
