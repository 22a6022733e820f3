# %% [markdown]
# # The paper from scratch
#
# *Paper Walkthrough: Attention Is All You Need* (text 001) builds the whole Transformer from small PyTorch classes.
# It runs each of them on random numbers, prints the shape of every tensor, and ends with a summary of 44,312,696
# parameters. glassformer has the same model as a named configuration. Here it goes through the same stations, but
# as one real model: every shape that the text prints is read off a recorded pass, and its summary is made again,
# row by row.
#
# After this lesson you can build the model from its constants, predict every shape and every parameter count of its
# summary, and name what the text leaves out of the paper.
#
# What the text states and what comes out again is folded with the code that holds it. A line with ✗ shows a place
# where the text slips: what it states, and what comes out.

# %%
import math
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from lesson import CONSEQUENCE, Lesson
from rich.console import Console
from torch.utils.flop_counter import FlopCounterMode

from glassformer import ModelConfig, Transformer, tracing
from glassformer.errors import ConfigError, InputError
from glassformer.explain import print_summary, summary_rows, symbols
from glassformer.model.attention import MultiHeadAttention, softmax
from glassformer.model.dropout import Dropout
from glassformer.model.masks import Mask, causal_mask
from glassformer.model.norm import AddAndNorm
from glassformer.model.positions import angles, frequencies
from glassformer.text.corpus.batches import collate
from glassformer.text.corpus.dataset import EncodedPairs, EncodedWriter
from glassformer.trace.palette import share_colours, signed_colours
from glassformer.training.objective.loss import smoothed_loss

torch.manual_seed(0)
torch.set_printoptions(precision=4, sci_mode=False, linewidth=110)
lesson = Lesson("001", "Paper Walkthrough: Attention Is All You Need")
EXACT = 1e-4  # two orders of computing the same thing in 32 bits differ by less

# %% [markdown]
# ## The constants
#
# The text fixes ten constants and uses them as the names of its axes. Our configuration calls them by the paper's
# names, and a trace writes each axis with a symbol. This is how the three go together:
#
# | the text's constant | its value | our setting | our symbol of the axis |
# |---|---|---|---|
# | `BATCH_SIZE` | 1 | the batch decides | nbatches |
# | `SEQ_LENGTH` | 200 | `max_length` | n_seq_src, n_seq_tgt |
# | `VOCAB_SIZE_SRC`, `VOCAB_SIZE_DST` | 100, 120 | `src_vocab`, `tgt_vocab` | vocab |
# | `D_MODEL` | 512 | `d_model` | d_model |
# | `NUM_HEADS` | 8 | `n_heads` | h |
# | `HEAD_DIM` | 64 | `d_k`, `d_v` | d_k, d_v |
# | `HIDDEN_DIM` | 2048 | `d_ff` | d_ff |
# | `N` | 6 | `n_encoder_layers`, `n_decoder_layers` | |
# | `DROP_PROB` | 0.1 | `dropout` | |

# %%
config, base = ModelConfig.from_name("walkthrough"), ModelConfig.base()

lesson.states("Codeblock 2", "SEQ_LENGTH is our max_length", 200, config.max_length)
lesson.states("Codeblock 2", "VOCAB_SIZE_SRC is our src_vocab", 100, config.src_vocab)
lesson.states("Codeblock 2", "VOCAB_SIZE_DST is our tgt_vocab", 120, config.tgt_vocab)
lesson.states(
    "Codeblock 2",
    "N is the number of our encoder and decoder layers",
    (6, 6),
    (config.n_encoder_layers, config.n_decoder_layers),
)

# %% [markdown]
# The text takes its constants from the paper's base model. Six of them are there. Lengths and vocabularies are its
# own choice, as it says: those of the paper would be 37,000 entries, shared by both languages.

# %%
lesson.states("Codeblock 2", "D_MODEL, in the base model too", 512, base.d_model)
lesson.states("Codeblock 2", "NUM_HEADS, in the base model too", 8, base.n_heads)
lesson.states("Codeblock 2", "HEAD_DIM, in the base model too", 64, base.d_k)
lesson.states("Codeblock 2", "HIDDEN_DIM, in the base model too", 2048, base.d_ff)
lesson.states("Codeblock 2", "N, in the base model too", 6, base.n_encoder_layers)
lesson.states("Codeblock 2", "DROP_PROB, in the base model too", 0.1, base.dropout)
assert (base.src_vocab, base.tgt_vocab) == (37_000, 37_000)

# %% [markdown] tags=["more"]
# ### Why eight heads fit and seven do not
#
# `d_model` must be a multiple of the heads, since each head gets an equal part. Our configuration refuses anything
# else and says what to do. (It is `HEAD_DIM = D_MODEL // NUM_HEADS` that makes it necessary. In the paper the width
# of a head is free, and here too: seven heads of 64 are a fine model.)


# %% tags=["more"]
def refusal(attempt, error):
    """The message with which something is refused, or an empty one."""
    try:
        attempt()
    except error as refused:
        return str(refused)
    return ""


message = refusal(lambda: ModelConfig.from_name("walkthrough", n_heads=7), ConfigError)
print(message)
print("seven heads of 64 side by side:", ModelConfig.from_name("walkthrough", n_heads=7, d_k=64).heads_d_k)
lesson.states(
    "Imports and Configurations",
    "8 heads fit into 512, 7 do not",
    (0, True),
    (config.d_model % config.n_heads, "multiple" in message),
)

# %% [markdown]
# ## One pass, recorded
#
# The text tests its classes one by one. We build the whole model at once, give it one source and one target of 200
# random ids, and record everything on the way. Each recorded tensor has an address such as
# `encoder.layers.0.self_attention.weights`, and names for its axes. From here on, `shows` holds a shape that the
# text prints against the tensor of the recorded pass.

# %%
model = Transformer(config).eval()
src_ids = torch.randint(3, config.src_vocab, (1, config.max_length))  # 0 to 2 are padding, start and end
tgt_in_ids = torch.randint(3, config.tgt_vocab, (1, config.max_length))
with torch.no_grad(), tracing(model) as trace:
    logits = model(src_ids, tgt_in_ids)
print(f"{len(trace)} tensors recorded, {sum(p.numel() for p in model.parameters()):,} parameters")


def shows(where, theirs, stated, address):
    """Hold a printed shape against the recorded tensor at ``address``."""
    (step,) = trace.select(address)
    parts = address.split(".")
    name = ".".join(parts[-3:] if parts[-2].isdigit() else parts[-2:])
    lesson.states(where, f"{theirs!r} is our {name} ({', '.join(symbols(step))})", stated, step.shape)


def difference(left, right):
    """The largest difference between the numbers of two tensors."""
    return (left - right).abs().max().detach()


# %% [markdown]
# ## What the figure of the whole model shows
#
# Before the code, the text names the components of the paper's figure 1: three multi-head attentions, "Add & Norm",
# the feed-forward block, embeddings, a linear layer and a softmax. In the program the three attentions are one
# class, used in three places.

# %%
attentions = {path: m for path, m in model.named_modules() if isinstance(m, MultiHeadAttention)}
kinds = sorted({path.split(".")[0] + "'s " + path.split(".")[-1] for path in attentions})
structures = {tuple(tuple(p.shape) for p in m.parameters()) for m in attentions.values()}
print(f"{len(attentions)} attentions of {len(kinds)} kinds:", ", ".join(kinds))
print("matrices and biases of each:", *structures)

lesson.states("Transformer Components", "kinds of multi-head attention", 3, len(kinds))
lesson.states("Multihead Self-Attention", "two of them are self-attention", 2, sum("self" in kind for kind in kinds))
lesson.states("The Attention Mechanism", "all have the same structure", 1, len(structures))
maps = [m for m in model.encoder.layers[0].feed_forward.modules() if isinstance(m, torch.nn.Linear)]
lesson.slips(
    "Transformer Components",
    "linear layers of the feed-forward block",
    1,
    len(maps),
    words="Feed Forward (blue) is just a linear layer",
    why='The text calls the block "just a linear layer"; it is two with a ReLU between them, as the text itself says'
    " further down, and so it is not linear.",
)

# %% [markdown]
# ## Input and output embedding
#
# An embedding is a table with one row for each entry of the vocabulary; an id is looked up, nothing is computed.
# Source and target have tables of their own, because their vocabularies differ.

# %%
lesson.states("Codeblock 4 output", "'original', our src_ids (nbatches, n_seq_src)", (1, 200), tuple(src_ids.shape))
shows("Codeblock 4 output", "after embedding", (1, 200, 512), "src_embedding.embedded")
lesson.states(
    "Codeblock 5 output", "'original', our tgt_in_ids (nbatches, n_seq_tgt)", (1, 200), tuple(tgt_in_ids.shape)
)
shows("Codeblock 5 output", "after embedding", (1, 200, 512), "tgt_embedding.embedded")
lesson.states(
    "Codeblock 3",
    "rows and columns of the source's table",
    (100, 512),
    tuple(model.src_embedding.tokens.weight.shape),
)
lesson.states(
    "Codeblock 3",
    "rows and columns of the target's table",
    (120, 512),
    tuple(model.tgt_embedding.tokens.weight.shape),
)
same = torch.equal(trace["src_embedding.embedded"][0, 0], model.src_embedding.tokens.weight[src_ids[0, 0]])
print("the vector of the first id is its row of the table:", same)

# %% [markdown]
# The random ids of 100 entries are 0 to 99: `torch.randint` leaves out its upper bound, and a table of 100 rows has
# no row 100. Our model says so.

# %%
message = refusal(lambda: model.encode(torch.tensor([[config.src_vocab]])), InputError)
print(message)
assert message
assert int(torch.randint(0, config.src_vocab, (100_000,)).max()) == 99

# %% [markdown]
# ### Shifted to the right, against what?
#
# The decoder reads the target "shifted right". The text explains this as a shift against the source: the current
# token of the original would go with the next token of the translation. But source and target have no positions in
# common; here they are not even of one length. What is shifted is the target against itself: the decoder reads
# `<s>` and all words but the end, and is to produce all words and the end. Our batches are made that way from a
# pair.

# %%
words = ["<pad>", "<s>", "</s>", "she", "reads", "a", "good", "book", "dia", "membaca", "buku", "bagus"]
source, target = "she reads a good book </s>", "dia membaca buku bagus </s>"
with tempfile.TemporaryDirectory() as directory:
    with EncodedWriter(Path(directory), vocab=len(words)) as writer:
        writer.append([[words.index(w) for w in source.split()]], [[words.index(w) for w in target.split()]])
    batch = collate(EncodedPairs(Path(directory)), np.array([0]))

for name in ("src_ids", "tgt_in_ids", "tgt_out_ids"):
    print(f"{name:12}", *(f"{words[i]:8}" for i in getattr(batch, name)[0]))


def follows(shifted, row):
    """Whether ``shifted`` is ``row`` moved one place to the right."""
    return shifted[0, 1:].tolist() == row[0, : shifted.shape[1] - 1].tolist()


rows = {"the source": batch.src_ids, "the target": batch.tgt_out_ids}
lesson.slips(
    "Input & Output Embedding",
    "the decoder's input is one place behind",
    "the source",
    ", ".join(name for name, row in rows.items() if follows(batch.tgt_in_ids, row)),
    words="the current token in the original sentence corresponds to the next token in the translated sentence",
    why="The target is shifted against itself, so that each position predicts its next token; no position of the"
    " source belongs to a position of the target.",
)
lesson.states(
    "Input & Output Embedding", "the first place is the start token's", "<s>", words[batch.tgt_in_ids[0, 0]]
)

# %% [markdown]
# ## Positional encoding
#
# Attention looks at a set of vectors and does not know their order. So a vector that depends on the position alone
# is added to each token's vector: sine waves in the even columns, cosine waves in the odd ones, PE(pos, 2i) =
# sin(pos / 10000^(2i / d_model)), PE(pos, 2i + 1) = cos of the same. The text computes the table in six small
# steps; in our model it is computed once, when the model is made.

# %%
(vectors,) = trace.select("src_embedding.position_vectors")
pos = torch.arange(config.max_length)[:, None]
denominator = 1 / frequencies(config.d_model)
even, odd = vectors.value[:, 0::2], vectors.value[:, 1::2]

lesson.states("Codeblock 7 output", "'pos' (n_seq, 1)", (200, 1), tuple(pos.shape))
lesson.states("Codeblock 7 output", "'denominator', half of d_model", (256,), tuple(denominator.shape))
lesson.states("Codeblock 7 output", "'even_pos_embed', the even columns of our table", (200, 256), tuple(even.shape))
lesson.states("Codeblock 7 output", "'odd_pos_embed', the odd columns", (200, 256), tuple(odd.shape))
lesson.states(
    "Codeblock 7 output",
    "'stacked', before the pairs are laid side by side",
    (200, 256, 2),
    tuple(torch.stack([even, odd], dim=2).shape),
)
shows("Codeblock 7 output", "pos_embed", (200, 512), "src_embedding.position_vectors")

angle = pos / denominator
lesson.states(
    "Codeblock 6", "the even columns are sines: largest difference", 0.0, difference(even, angle.sin()), within=EXACT
)
lesson.states(
    "Codeblock 6", "the odd columns are cosines: largest difference", 0.0, difference(odd, angle.cos()), within=EXACT
)
lesson.states(
    "Positional Encoding",
    "values range from -1 to 1",
    torch.tensor([-1.0, 1.0]),
    torch.stack([vectors.value.min(), vectors.value.max()]),
    within=1e-3,
)
lesson.states(
    "Positional Encoding",
    "the frequency falls from left to right",
    True,
    bool((frequencies(config.d_model).diff() < 0).all()),
)
print("positions 0 to 3, first six columns:")
print(vectors.value[:4, :6])

# %% [markdown]
# Row 0 is easy to check by heart: every sine of 0 is 0, every cosine is 1. The first pair of columns turns by one
# radian a position, the last by a ten-thousandth of one, or nearly so.

# %%
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), width_ratios=[3, 2])
for column, style in ((80, "C1-"), (81, "C2-"), (160, "C1--"), (161, "C2--")):
    left.plot(vectors.value[:, column], style, label=f"column {column}, {'cosine' if column % 2 else 'sine'}")
left.set(xlabel="position", ylabel="value", title="four columns of the table")
left.legend(fontsize=7, loc="lower right")
image = right.imshow(vectors.value, aspect="auto", cmap=signed_colours(), vmin=-1, vmax=1)
right.set(xlabel="column of d_model", ylabel="position", title="the whole table")
fig.colorbar(image, ax=right)
fig.tight_layout()
plt.show()
plt.close("all")

# %% [markdown]
# The 200 positions are 0 to 199, and the 256 numbers of the text's array `i` are the even ones from 0 to 510. In the
# paper's equation `i` is something else: it counts pairs of columns. If it counted the 512 elements of the vector, as
# the text has it, then 2i + 1 would reach far beyond the vector's end.

# %%
columns = torch.arange(0, config.d_model, 2)
assert (int(pos[-1]), int(columns[-1])) == (199, 510)
lesson.states("Positional Encoding", "numbers in the array i", 256, len(columns))
lesson.slips(
    "Positional Encoding",
    "values that i takes in the paper's equation",
    512,
    angles(config.max_length, config.d_model).shape[1],
    words="i is the index of the element in the 512 (D_MODEL )-dimensional token vector",
    why="i numbers the pairs (2i, 2i + 1) of columns, 256 of them; it is not the index of an element of the vector.",
)

# %% [markdown]
# ### The sum, and what order is worth
#
# Table and embedding are added element by element. The paper first multiplies the embedding by √d_model, and so does
# our base model. The text leaves this step out, and the configuration `walkthrough` with it. (Its embeddings start
# with large values instead, so that a token's vector is a little longer than its position's.)

# %%
shows("Positional Encoding", "after pos encoding", (1, 200, 512), "src_embedding.with_positions")
summed = trace["src_embedding.embedded"] + vectors.value
lesson.states(
    "Positional Encoding",
    "the addition is element by element: largest difference",
    0.0,
    difference(trace["src_embedding.with_positions"], summed),
)
print(f"mean length of a token's vector:    {trace['src_embedding.embedded'].norm(dim=-1).mean():.2f}")
print(f"length of every position's vector:  {vectors.value.norm(dim=-1).mean():.2f}")
assert trace["src_embedding.embedded"].norm(dim=-1).mean() > vectors.value.norm(dim=-1).mean()
lesson.slips(
    "Positional Encoding",
    "what an embedding is multiplied by before the sum",
    model.src_embedding.scale,
    math.sqrt(base.d_model),
    words="is going to be taken and summed up with the corresponding embedding tensor value",
    why="Section 3.4 of the paper multiplies embeddings by √d_model; the text passes over this step.",
    kind=CONSEQUENCE,
    within=0.01,
)

# %% [markdown] tags=["more"]
# ### Attention alone does not see the order
#
# That attention alone does not see the order can be tried. We encode twenty ids in two orders. With the positions'
# vectors replaced by zeros, each token comes out the same in both orders. With them, it does not.

# %% tags=["more"]
some, order = src_ids[:, :20], torch.randperm(20)


def change_by_order(edits):
    """How far the encoder's output for a token moves when the tokens change places."""
    outputs = []
    for ids in (some, some[:, order]):
        with torch.no_grad(), tracing(model, edits=edits, only=""):
            outputs.append(model.encode(ids)[0])
    return difference(outputs[0][:, order], outputs[1])


without = change_by_order({"src_embedding.position_vectors": torch.zeros_like})
print(f"change without positions {without:.6f}, with positions {change_by_order({}):.2f}")
lesson.states("Transformer Components", "attention takes no account of the order: change", 0.0, without, within=EXACT)
lesson.states("Transformer Components", "positional encoding brings it in", True, bool(change_by_order({}) > 0.1))

# %% [markdown]
# ## Scaled dot-product attention
#
# Attention(Q, K, V) = softmax(Q Kᵀ / √d_k) V. Each of 200 queries is multiplied with each of 200 keys; the products
# are divided by √64 = 8; the softmax makes weights of them, which add up to 1 for each query; the values are
# averaged with these weights. The text runs one head on random numbers. So do we, with the attention of our first
# decoder layer; the axis of the single head is left out in what follows.

# %%
attention = model.decoder.layers[0].self_attention
q, k, v = (torch.randn(1, 1, config.max_length, config.d_k) for _ in range(3))
mask = causal_mask(config.max_length, config.max_length, torch.device("cpu"))
with torch.no_grad(), tracing(attention) as head:
    heads = attention.attend(q, k, v, Mask.from_visible(mask))


def one_head(theirs, stated, tensor, ours):
    lesson.states("Codeblock 9 output", f"'{theirs}' is our {ours}", stated, tuple(tensor.squeeze(1).shape))


one_head("q", (1, 200, 64), q, "q (nbatches, n_seq_q, d_k)")
one_head("k", (1, 200, 64), k, "k (nbatches, n_seq_k, d_k)")
one_head("v", (1, 200, 64), v, "v (nbatches, n_seq_k, d_v)")
one_head("multiplied", (1, 200, 200), head["products"], "products (nbatches, n_seq_q, n_seq_k)")
one_head("scaled", (1, 200, 200), head["scores"], "scores (nbatches, n_seq_q, n_seq_k)")
one_head("mask", (200, 200), mask[0, 0], "causal_mask (n_seq_q, n_seq_k)")
one_head("attn_output_weights", (1, 200, 200), head["weights"], "weights (nbatches, n_seq_q, n_seq_k)")
one_head("attn_output", (1, 200, 64), heads, "heads (nbatches, n_seq_q, d_v)")
lesson.states("Scaled Dot-Product Attention", "the transposed key", (64, 200), tuple(k.transpose(-2, -1).shape[2:]))

# %% [markdown]
# Why divide? A product of two random vectors with 64 numbers each has a variance of 64. Large numbers make the
# softmax all but choose a single key, and then there is hardly a gradient to learn from. Divided by 8, the variance
# is 1.

# %%
print(f"variance of the products {head['products'].var():.2f}, of the scores {head['scores'].var():.3f}")
ratio = (head["products"] / head["scores"]).nanmean()
lesson.states("Scaled Dot-Product Attention", "the divisor is √64", math.sqrt(64), float(ratio), within=EXACT)
lesson.states(
    "Scaled Dot-Product Attention",
    "the variance is high before, and lower after",
    True,
    bool(head["products"].var() > 32 * head["scores"].var()),
)

# %% [markdown]
# ## The look-ahead mask
#
# In the decoder, a position must not see the tokens behind it: they are what it is to predict. The text keeps a
# matrix of 0 and -∞ and adds it to the scores; our model keeps truth values, `True` where a query may look, and
# puts -∞ where it may not. Softmax makes 0 of -∞. For seven tokens, as in the text's figure:

# %%
may_look = causal_mask(7, 7, torch.device("cpu"))
added = torch.zeros(7, 7).masked_fill(~may_look[0, 0], -math.inf)
weights = trace["decoder.layers.0.self_attention.weights"][0, 0, :7, :7]

fig, axes = plt.subplots(1, 3, figsize=(9.5, 3.3))
pictures = (added.isinf().float(), may_look[0, 0].float(), weights)
titles = ("the text's mask, added", "our mask", "weights of decoder layer 0, head 0")
for ax, picture, title in zip(axes, pictures, titles, strict=True):
    ax.imshow(picture, cmap="Greys" if ax is axes[0] else share_colours(), vmin=0, vmax=1)
    ax.set(xlabel="key", ylabel="query", title=title, xticks=range(7), yticks=range(7))
    ax.title.set_fontsize(9)
cells = (
    [["-∞" if number else "0" for number in row] for row in added.isinf().tolist()],
    [["T" if allowed else "F" for allowed in row] for row in may_look[0, 0].tolist()],
    [[f"{number:.2f}"[1:] if 0 < number < 1 else f"{number:.0f}" for number in row] for row in weights.tolist()],
)
for ax, picture, texts in zip(axes, pictures, cells, strict=True):
    for row in range(7):
        for column in range(7):
            shade = "white" if picture[row, column] > 0.5 else "black"
            ax.text(column, row, texts[row][column], ha="center", va="center", fontsize=7, color=shade)
fig.tight_layout()
plt.show()
plt.close("all")

# %%
lower = torch.ones(7, 7, dtype=torch.bool).tril()
lesson.states("Look-Ahead Mask", "the lower part and the diagonal hold", [0.0], added[lower].unique().tolist())
lesson.states("Look-Ahead Mask", "the upper part holds", [-math.inf], added[~lower].unique().tolist())
lesson.states(
    "Look-Ahead Mask",
    "keys that token 3 may look at",
    [3, 2, 1, 0],
    may_look[0, 0, 3].nonzero().flatten().flip(0).tolist(),
)
lesson.states("Look-Ahead Mask", "softmax of -inf", 0.0, float(torch.tensor([0.0, -math.inf]).softmax(0)[1]))
lesson.states(
    "Look-Ahead Mask",
    "a score plus 0 is unchanged, plus -inf is -inf",
    (True, True),
    (
        torch.equal((head["scores"][0, 0, :7, :7] + added)[lower], head["scores"][0, 0, :7, :7][lower]),
        bool((head["scores"][0, 0, :7, :7] + added)[~lower].isneginf().all()),
    ),
)
with_sum = (head["scores"] + torch.zeros(200, 200).masked_fill(~mask[0, 0], -math.inf)).softmax(-1)
lesson.states(
    "Look-Ahead Mask",
    "adding -inf gives the weights of our mask: largest difference",
    0.0,
    difference(with_sum, head["weights"]),
    within=EXACT,
)

# %% [markdown] tags=["more"]
# ### A query that may look at nothing
#
# The two masks differ in one case, a query that may look at no key at all. (A sentence that is all padding has only
# such queries.) A row of -∞ alone has no softmax: it becomes NaN, "not a number", which spreads to everything that
# touches it. Our softmax gives such a query zeros.

# %% tags=["more"]
nothing = torch.full((1, 1, 1, 4), -math.inf)
print("the text's way:", nothing.softmax(-1).flatten().tolist())
print(
    "our way:       ",
    softmax(torch.zeros(1, 1, 1, 4), Mask.from_visible(torch.zeros(1, 1, 1, 4, dtype=torch.bool))).flatten().tolist(),
)

# %% [markdown] tags=["more"]
# ### Does the mask do what it is for?
#
# Does the mask do what it is for? We change the last of twenty target tokens. In the decoder no earlier position
# notices. In the encoder, which has no such mask, all do.

# %% tags=["more"]
changed_src, changed_tgt = src_ids[:, :20].clone(), tgt_in_ids[:, :20].clone()
changed_src[0, -1], changed_tgt[0, -1] = changed_src[0, -1] % 50 + 40, changed_tgt[0, -1] % 50 + 40
with torch.no_grad():
    memory, src_mask = model.encode(src_ids[:, :20])
    moved_src = (model.encode(changed_src)[0] - memory).abs().amax(-1)[0]
    before = model.decode(tgt_in_ids[:, :20], memory, src_mask)
    moved_tgt = (model.decode(changed_tgt, memory, src_mask) - before).abs().amax(-1)[0]
print("decoder, first and last change:", moved_tgt[:-1].max().item(), round(moved_tgt[-1].item(), 3))
print("encoder, least change anywhere:", round(moved_src.min().item(), 5))
lesson.states("Look-Ahead Mask", "earlier positions move by", 0.0, moved_tgt[:-1].max(), within=EXACT)
lesson.states(
    "Multihead Self-Attention",
    "in the encoder every token looks at all others",
    True,
    bool((moved_src > 10 * EXACT).all()),
)

# %% [markdown]
# ## Multi-head self-attention
#
# In self-attention, queries, keys and values come from the same sequence. The text uses one linear layer that makes
# all three at once, 512 to 1536 numbers; our model has one matrix for each, as the paper writes it. Eight heads
# then work side by side on 64 numbers each, and a last matrix mixes what they have gathered.

# %%
shows("Codeblock 12 output", "original", (1, 200, 512), "src_embedding.with_positions")
inside = "encoder.layers.0.self_attention."
together = {
    form: torch.cat([trace[inside + name + form] for name in "qkv"], dim=-1) for form in ("_projected", "_split", "")
}
for theirs, stated, form, axes in (
    ("after qkv_linear", (1, 200, 1536), "_projected", "nbatches, n_seq_src, 3·h·d_k"),
    ("after reshape", (1, 200, 8, 192), "_split", "nbatches, n_seq_src, h, 3·d_k"),
    ("after permute", (1, 8, 200, 192), "", "nbatches, h, n_seq_src, 3·d_k"),
):
    lesson.states(
        "Codeblock 12 output",
        f"'{theirs}' is our q{form}, k{form}, v{form} ({axes})",
        stated,
        tuple(together[form].shape),
    )
for theirs, stated, name in (
    ("q", (1, 8, 200, 64), "q"),
    ("k", (1, 8, 200, 64), "k"),
    ("v", (1, 8, 200, 64), "v"),
    ("attn_output", (1, 8, 200, 64), "heads"),
    ("attn_output_weights", (1, 8, 200, 200), "weights"),
    ("after permute", (1, 200, 8, 64), "heads_by_position"),
    ("after reshape", (1, 200, 512), "heads_merged"),
    ("after linear", (1, 200, 512), "output"),
):
    shows("Codeblock 12 output", theirs, stated, inside + name)
lesson.states("Multihead Self-Attention", "3 times the width", 1536, together["_projected"].shape[-1])
lesson.states(
    "Multihead Self-Attention", "numbers that each head gets of the 1536", 192, together["_split"].shape[-1]
)

# %% [markdown] tags=["more"]
# ### Is one wide layer the same as our three?
#
# Is one wide layer the same as our three? Yes, if its rows are laid out head by head, each head's 64 rows for q,
# then for k, then for v: that is how the text cuts its 1536 numbers up. We build the wide layer from our three
# matrices and take the text's steps.

# %% tags=["more"]
first = model.encoder.layers[0].self_attention
h, d_k = config.n_heads, config.d_k
three = (first.w_q, first.w_k, first.w_v)
with torch.no_grad():
    wide = torch.cat([w.weight.view(h, d_k, config.d_model) for w in three], dim=1).flatten(0, 1)
    bias = torch.cat([w.bias.view(h, d_k) for w in three], dim=1).flatten()
    made = torch.nn.functional.linear(trace["src_embedding.with_positions"], wide, bias)
    made = made.reshape(1, config.max_length, h, 3 * d_k).permute(0, 2, 1, 3).chunk(3, dim=-1)
for name, fused in zip("qkv", made, strict=True):
    lesson.states(
        "Codeblock 11",
        f"the wide layer gives our {name}: largest difference",
        0.0,
        difference(fused, trace[inside + name]),
        within=EXACT,
    )

# %% [markdown]
# Note what is cut into eight pieces: the numbers behind the matrix, not the 512 features in front of it. Each head
# has its own 64 rows of 512 weights, so that each sees every feature of a token.

# %%
of_one_head = first.w_q.weight.view(h, d_k, config.d_model)[0]
print("weights of w_q for one head:", tuple(of_one_head.shape))
lesson.slips(
    "Imports and Configurations",
    "features of a token that one head's queries are made of",
    64,
    int((of_one_head.abs().sum(0) > 0).sum()),
    words="the 512 features of each token will be spread evenly into these 8 attention heads",
    why="W_Q comes before the split: each head has 64 numbers of its own, and makes them of all 512 features.",
)

# %% [markdown]
# On the way back, the axis of the heads and the axis of the positions change places again. The text names the wrong
# pair of axes here. It is right that the order of the two steps matters: without the swap, the reshape gives a
# tensor of the right shape with the numbers in the wrong places.

# %%
heads = trace[inside + "heads"]
lesson.slips(
    "Multihead Self-Attention",
    "shape when HEAD_DIM and SEQ_LENGTH swap places",
    tuple(heads.transpose(2, 3).shape),
    tuple(trace[inside + "heads_by_position"].shape),
    words="The next step to be done is to swap back the HEAD_DIM and the SEQ_LENGTH axes",
    kind=CONSEQUENCE,
    why="permute(0, 2, 1, 3) swaps the axis of the heads with SEQ_LENGTH; HEAD_DIM stays last.",
)
straight = heads.reshape(1, config.max_length, config.d_model)
kept = (straight == trace[inside + "heads_merged"]).float().mean()
print(f"without the swap, {kept:.2%} of the numbers are in their places")
lesson.states(
    "Multihead Self-Attention",
    "without the swap the shape is right, the numbers are not",
    (True, False),
    (straight.shape == trace[inside + "heads_merged"].shape, torch.equal(straight, trace[inside + "heads_merged"])),
)

# %% [markdown]
# ## Multi-head cross-attention
#
# Cross-attention is where the decoder reads the source: its queries come from the target, keys and values from the
# encoder's output, which we call the memory. There is no look-ahead mask, because the source is known from the
# start.

# %%
inside = "decoder.layers.0.cross_attention."
shows("Codeblock 15 output", "x_enc original", (1, 200, 512), "encoder.memory")
shows("Codeblock 15 output", "x_dec original", (1, 200, 512), "decoder.layers.0.self_attention_add_norm.norm.output")
together = {
    form: torch.cat([trace[inside + name + form] for name in "kv"], dim=-1) for form in ("_projected", "_split", "")
}
for theirs, stated, form, axes in (
    ("after kv_linear", (1, 200, 1024), "_projected", "nbatches, n_seq_src, 2·h·d_k"),
    ("after reshape", (1, 200, 8, 128), "_split", "nbatches, n_seq_src, h, 2·d_k"),
    ("after permute", (1, 8, 200, 128), "", "nbatches, h, n_seq_src, 2·d_k"),
):
    lesson.states(
        "Codeblock 15 output", f"'{theirs}' is our k{form}, v{form} ({axes})", stated, tuple(together[form].shape)
    )
for theirs, stated, name in (
    ("k", (1, 8, 200, 64), "k"),
    ("v", (1, 8, 200, 64), "v"),
    ("after q_linear", (1, 200, 512), "q_projected"),
    ("after reshape", (1, 200, 8, 64), "q_split"),
    ("after permute (q)", (1, 8, 200, 64), "q"),
    ("attn_output", (1, 8, 200, 64), "heads"),
    ("attn_output_weights", (1, 8, 200, 200), "weights"),
    ("after permute", (1, 200, 8, 64), "heads_by_position"),
    ("after reshape", (1, 200, 512), "heads_merged"),
    ("after linear", (1, 200, 512), "output"),
):
    shows("Codeblock 15 output", theirs, stated, inside + name)

# %% [markdown] tags=["more"]
# ### Who reads the memory?
#
# All six decoder layers read the memory of the last encoder layer, and nothing else of the encoder.

# %% tags=["more"]
lesson.states(
    "Combining Encoder and Decoder",
    "the memory is the last encoder layer's output",
    True,
    torch.equal(trace["encoder.memory"], trace["encoder.layers.5.output"]),
)
with torch.no_grad():
    keys = [layer.cross_attention.w_k(trace["encoder.memory"]) for layer in model.decoder.layers]
apart = [difference(k, trace[f"decoder.layers.{n}.cross_attention.k_projected"]) for n, k in enumerate(keys)]
lesson.states(
    "Combining Encoder and Decoder",
    "decoder layers whose keys are made from it",
    6,
    sum(distance.item() < EXACT for distance in apart),
)

# %% [markdown] tags=["more"]
# ### Two lengths tell source from target
#
# The text's two sequences are of one length, so that its shapes do not tell source from target: every axis of
# positions is 200. And its code cannot do otherwise, for it reshapes both with the same constant. Sentences do not
# do us that favour. With five source tokens and seven target tokens, the shapes say what belongs to what:

# %% tags=["more"]
with torch.no_grad(), tracing(model, only=inside + "*") as short:
    model(src_ids[:, :5], tgt_in_ids[:, :7])
for step in short:
    print(f"{step.name:18} {'(' + ', '.join(symbols(step)) + ')':36} {step.shape}")

# %% [markdown]
# ### Shorter sentences
#
# The text pads every sentence to 200 tokens, but its code has no mask for padding, so that a real token would
# attend to the filler. Our model takes any length up to `max_length`, and hides padding. We encode five tokens
# alone and with 195 fillers behind them; then again with the mask replaced by one that hides nothing.

# %%
alone = src_ids[:, :5]
filled = torch.nn.functional.pad(alone, (0, config.max_length - 5), value=config.pad_id)
with torch.no_grad():
    wanted = model.encode(alone)[0]
    hidden = model.encode(filled)[0][:, :5]
    with tracing(model, edits={"src_mask": torch.ones_like}, only=""):
        seen = model.encode(filled)[0][:, :5]
lesson.slips(
    "Imports and Configurations",
    "change of five tokens' vectors when 195 fillers stand behind them and no mask hides these",
    0.0,
    round(float((seen - wanted).abs().max()), 2),
    words="if it has fewer than 200 tokens, padding will be applied",
    why="The code has a look-ahead mask but none for padding, so that every real token attends to the filler.",
    kind=CONSEQUENCE,
    within=0.1,
)
print(f"padding hidden: the five vectors change by at most {(hidden - wanted).abs().max():.6f}")
assert (hidden - wanted).abs().max() < EXACT
print(f"padding seen:   the five vectors change by at most {(seen - wanted).abs().max():.2f}")
print(refusal(lambda: model.encode(torch.full((1, 201), 3)), InputError))

# %% [markdown]
# ## Feed-forward
#
# FFN(x) = max(0, x W_1 + b_1) W_2 + b_2: each position alone is widened to 2048 numbers, negative ones are set to
# 0, and the rest is narrowed to 512 again.

# %%
inside = "encoder.layers.0.feed_forward."
shows("Codeblock 17 output", "original", (1, 200, 512), "encoder.layers.0.self_attention_add_norm.norm.output")
shows("Codeblock 17 output", "after linear_0", (1, 200, 2048), inside + "inner")
shows("Codeblock 17 output", "after relu", (1, 200, 2048), inside + "activated")
lesson.states(
    "Codeblock 17 output",
    "'after dropout', which keeps the shape",
    (1, 200, 2048),
    tuple(Dropout(config.dropout)(trace[inside + "activated"]).shape),
)
shows("Codeblock 17 output", "after linear_1", (1, 200, 512), inside + "output")
lesson.states(
    "Feed Forward Blocks",
    "ReLU is max(0, x)",
    True,
    torch.equal(trace[inside + "inner"].clamp(min=0), trace[inside + "activated"]),
)
blocks = [m for path, m in model.named_modules() if path.endswith(".feed_forward")]
lesson.states(
    "Feed Forward Blocks",
    "the encoder's and the decoder's are built alike: kinds of block",
    1,
    len({tuple(tuple(p.shape) for p in block.parameters()) for block in blocks}),
)
print(f"{(trace[inside + 'activated'] == 0).float().mean():.1%} of the 2048 numbers are 0 behind the ReLU")

# %% [markdown]
# The text puts a dropout between the two layers. The paper has none there: its section 5.4 drops out the output of
# each sublayer before it is added, and the sum of embedding and position. The text has the first, leaves out the
# second, and adds one of its own. A dropout holds no parameters, so this changes no count.

# %%
places = [path for path, m in model.named_modules() if isinstance(m, Dropout)]
places = [path for path in places if "layers" not in path or "layers.0" in path]
print("our dropouts on the embeddings and in the first layer of each stack:", *places, sep="\n  ")
lesson.slips(
    "Feed Forward Blocks",
    "dropouts inside a feed-forward block of the paper",
    1,
    sum("feed_forward." in path for path in places),
    words="a stack of two linear layers with a ReLU activation function and a dropout layer in between",
    why="Equation 2 of the paper has none between the two layers, and section 5.4 names the places of dropout:"
    " sublayer outputs and the sums of embeddings and positions.",
)
lesson.states(
    "Encoder",
    "dropouts just before a norm, in one encoder layer",
    2,
    sum(path.startswith("encoder.") for path in places),
)
lesson.states("Decoder", "and in one decoder layer", 3, sum(path.startswith("decoder.") for path in places))

# %% [markdown] tags=["more"]
# ### What dropout does
#
# In training, dropout sets each number to 0 with probability 0.1 and divides the others by 0.9, so that the mean
# stays as it was. In use it does nothing. On 200 vectors of ones:

# %% tags=["more"]
dropout, ones = Dropout(config.dropout), torch.ones(config.max_length, config.d_model)
dropped = dropout.train()(ones)
print("values that occur:", [round(value, 4) for value in dropped.unique().tolist()])
print(f"mean {dropped.mean():.4f}; outside training {dropout.eval()(ones).unique().tolist()}")
lesson.states(
    "Codeblock 2", "share of zeros behind DROP_PROB = 0.1", 0.1, (dropped == 0).double().mean(), within=0.005
)

counts = (dropped == 0).sum(-1)
fig, (left, right) = plt.subplots(1, 2, figsize=(8.5, 3.1))
left.imshow(dropped[:40, :80] == 0, cmap="Greys", aspect="auto")
left.set(xlabel="column of d_model", ylabel="position", title="dropped (black), the first 40 × 80")
right.hist(counts, bins=range(int(counts.min()), int(counts.max()) + 2), color="C0")
right.axvline(config.dropout * config.d_model, color="C3", label=f"0.1 · 512 = {config.dropout * config.d_model:.1f}")
right.set(xlabel="numbers dropped of a vector's 512", ylabel="vectors", title="200 vectors")
right.legend(fontsize=8)
fig.tight_layout()
plt.show()
plt.close("all")

# %% [markdown]
# ## Layer normalisation
#
# A norm takes each token's vector by itself: it subtracts the mean of its 512 numbers, divides by their standard
# deviation, then scales with γ and shifts with β, 512 learned numbers each. Our model calls these `gain` and
# `bias`.

# %%
norm = model.encoder.layers[0].self_attention_add_norm.norm
x = torch.randn(1, config.max_length, config.d_model)
with torch.no_grad(), tracing(norm) as normed:
    norm(x)
mean, variance = normed["mean"][..., None], normed["variance"][..., None]
deviation = (variance + norm.eps).sqrt()
for theirs, stated, tensor, ours in (
    ("original", (1, 200, 512), x, "x (nbatches, n_seq, d_model)"),
    ("mean", (1, 200, 1), mean, "mean (nbatches, n_seq), with its last axis kept"),
    ("var", (1, 200, 1), variance, "variance (nbatches, n_seq), with its last axis kept"),
    ("stddev", (1, 200, 1), deviation, "√(variance + ε)"),
    ("normalized", (1, 200, 512), normed["normalised"], "normalised (nbatches, n_seq, d_model)"),
    ("after scaling and shifting", (1, 200, 512), normed["output"], "output (nbatches, n_seq, d_model)"),
):
    lesson.states("Codeblock 19 output", f"'{theirs}' is our {ours}", stated, tuple(tensor.shape))

formula = norm.gain * ((x - x.mean(-1, keepdim=True)) / (x.var(-1, correction=0, keepdim=True) + 1e-5).sqrt())
lesson.states("Codeblock 18", "eps", 1e-5, norm.eps)
lesson.states(
    "Codeblock 18",
    "the text's formula gives our output: largest difference",
    0.0,
    difference(formula + norm.bias, normed["output"]),
    within=EXACT,
)
lesson.states(
    "Codeblock 18",
    "gamma starts as 1 and beta as 0",
    ([1.0], [0.0]),
    (norm.gain.unique().tolist(), norm.bias.unique().tolist()),
)
lesson.states(
    "Layer Normalization",
    "with them the normalised values do not change: largest change",
    0.0,
    difference(normed["output"], normed["normalised"]),
    within=EXACT,
)
lesson.states(
    "Layer Normalization", "both are trained", (True, True), (norm.gain.requires_grad, norm.bias.requires_grad)
)

# %% [markdown] tags=["more"]
# ### keepdim and ε
#
# The text keeps the last axis (`keepdim=True`), since 200 means cannot be subtracted from 200 vectors of 512
# numbers otherwise. And it explains ε: a vector of equal numbers has variance 0. Both can be tried.

# %% tags=["more"]
lesson.states("Layer Normalization", "shape of the mean without keepdim", (1, 200), tuple(x.mean(-1).shape))
message = refusal(lambda: x - x.mean(-1), RuntimeError)
print(message)
lesson.states("Layer Normalization", "then the subtraction is refused", True, bool(message))
equal = torch.full((1, 1, config.d_model), 3.0)
without = ((equal - equal.mean(-1, keepdim=True)) / equal.var(-1, correction=0, keepdim=True).sqrt())[0, 0, 0]
print(f"a vector of threes, without ε: {without.item()}, with ε: {norm(equal)[0, 0, 0].item()}")
lesson.states(
    "Layer Normalization",
    "without eps, 0 / 0; with it, a number",
    (True, False),
    (bool(without.isnan()), bool(norm(equal).isnan().any())),
)

# %% [markdown]
# The statistics belong to tokens, not to the batch: 200 means for 200 tokens. (Batch normalisation would have 512,
# one for each feature, taken over all tokens of all sentences.) In the recorded pass, the vectors that enter the
# first norm have any mean and width; those that leave it have mean 0 and deviation 1.

# %%
entering = trace["encoder.layers.0.self_attention_add_norm.residual"][0]
leaving = trace["encoder.layers.0.self_attention_add_norm.norm.output"][0]
print("means: layer norm", tuple(entering.mean(-1).shape), " batch norm", tuple(entering.mean(0).shape))
fig, axes = plt.subplots(1, 2, figsize=(8.5, 2.9))
for ax, statistic, title in zip(axes, (torch.mean, torch.std), ("mean", "standard deviation"), strict=True):
    ax.plot(statistic(entering, dim=-1), label="before the norm")
    ax.plot(statistic(leaving, dim=-1), label="after the norm")
    ax.set(xlabel="position", ylabel=title, title=f"{title} of each token's 512 numbers")
    ax.title.set_fontsize(9)
axes[0].legend(fontsize=8)
fig.tight_layout()
plt.show()
plt.close("all")
lesson.states(
    "Layer Normalization",
    "statistics are each token's own: largest mean of a token after the norm",
    0.0,
    leaving.mean(-1).abs().max(),
    within=EXACT,
)

# %% [markdown]
# ## The encoder layer
#
# Self-attention and feed-forward, and round each of them a residual connection: what went in is added to what came
# out, and a norm follows. The text prints the shape after its dropout; in our trace, dropout and sum are one step,
# the `residual`.

# %%
layer = "encoder.layers.0."
for theirs, stated, address in (
    ("original & residual", (1, 200, 512), "src_embedding.with_positions"),
    ("after self attention", (1, 200, 512), layer + "self_attention.output"),
    ("after dropout", (1, 200, 512), layer + "self_attention_add_norm.residual"),
    ("after layer norm", (1, 200, 512), layer + "self_attention_add_norm.norm.output"),
    ("x & residual", (1, 200, 512), layer + "self_attention_add_norm.norm.output"),
    ("after feed forward", (1, 200, 512), layer + "feed_forward.output"),
    ("after dropout", (1, 200, 512), layer + "feed_forward_add_norm.residual"),
    ("after layer norm", (1, 200, 512), layer + "feed_forward_add_norm.norm.output"),
):
    shows("Codeblock 21 output", theirs, stated, address)

wraps = [m for m in model.encoder.layers[0].modules() if isinstance(m, AddAndNorm)]
lesson.states("Encoder", "residual connections", 2, len(wraps))
stream = {trace[layer + name].shape for name in ("self_attention.output", "feed_forward.output", "output")}
lesson.states("Encoder", "shapes of what its blocks give", 1, len(stream))
summed = trace["src_embedding.with_positions"] + trace[layer + "self_attention.output"]
lesson.states(
    "Encoder",
    "the norm is given input + attention: largest difference",
    0.0,
    difference(trace[layer + "self_attention_add_norm.residual"], summed),
    within=EXACT,
)

# %% [markdown]
# "Add & Norm" is thus what its name says: the norm of the sum, here computed by hand.

# %%
residual, wrap = trace[layer + "self_attention_add_norm.residual"], wraps[0].norm
by_hand = torch.nn.functional.layer_norm(residual, (config.d_model,), wrap.gain, wrap.bias, wrap.eps)
lesson.states(
    "Transformer Components",
    "Add & Norm is an addition, then a normalisation: largest difference",
    0.0,
    difference(by_hand, trace[layer + "self_attention_add_norm.norm.output"]),
    within=EXACT,
)

# %% [markdown]
# The text calls `residual = x` a copy. In Python it is a second name for the same numbers in memory. That works as
# well, because the attention makes new tensors and changes none in place.

# %% [markdown]
# ## The decoder layer
#
# Three sublayers: masked self-attention, cross-attention, feed-forward.

# %%
layer = "decoder.layers.0."
for theirs, stated, address in (
    ("x_dec & residual", (1, 200, 512), "tgt_embedding.with_positions"),
    ("after self attention", (1, 200, 512), layer + "self_attention.output"),
    ("after dropout", (1, 200, 512), layer + "self_attention_add_norm.residual"),
    ("after layer norm", (1, 200, 512), layer + "self_attention_add_norm.norm.output"),
    ("x_dec & residual", (1, 200, 512), layer + "self_attention_add_norm.norm.output"),
    ("after cross attention", (1, 200, 512), layer + "cross_attention.output"),
    ("after dropout", (1, 200, 512), layer + "cross_attention_add_norm.residual"),
    ("after layer norm", (1, 200, 512), layer + "cross_attention_add_norm.norm.output"),
    ("x_dec & residual", (1, 200, 512), layer + "cross_attention_add_norm.norm.output"),
    ("after feed forward", (1, 200, 512), layer + "feed_forward.output"),
    ("after dropout", (1, 200, 512), layer + "feed_forward_add_norm.residual"),
    ("after layer norm", (1, 200, 512), layer + "feed_forward_add_norm.norm.output"),
):
    shows("Codeblock 23 output", theirs, stated, address)

# %% [markdown]
# ## The whole model
#
# Six encoder layers, six decoder layers, and a linear layer from 512 numbers to one for each entry of the target
# vocabulary.

# %%
where = "Codeblock 26 output"
lesson.states(where, "'x_enc_raw', our src_ids (nbatches, n_seq_src)", (1, 200), tuple(src_ids.shape))
lesson.states(where, "'x_dec_raw', our tgt_in_ids (nbatches, n_seq_tgt)", (1, 200), tuple(tgt_in_ids.shape))
shows(where, "after input embedding", (1, 200, 512), "src_embedding.embedded")
shows(where, "after pos encoding", (1, 200, 512), "src_embedding.with_positions")
for n in range(6):
    shows(where, f"after encoder #{n}", (1, 200, 512), f"encoder.layers.{n}.output")
shows(where, "after output embedding", (1, 200, 512), "tgt_embedding.embedded")
shows(where, "after pos encoding", (1, 200, 512), "tgt_embedding.with_positions")
for n in range(6):
    shows(where, f"after decoder #{n}", (1, 200, 512), f"decoder.layers.{n}.output")
shows(where, "after linear", (1, 200, 120), "output_projection.logits")

# %% [markdown] tags=["more"]
# ### Softmax and the loss
#
# The text ends with the linear layer and leaves the softmax to the loss. That is so: cross-entropy takes the
# softmax itself. A trace shows the probabilities next to the logits. The loss of our training, without label
# smoothing, is the mean of -log of the probability of the right token, which can be read off them.

# %% tags=["more"]
probabilities = trace["output_projection.probabilities"]
tgt_out_ids = tgt_in_ids.roll(-1, dims=1)
loss, _, n_tokens = smoothed_loss(logits, tgt_out_ids, config.pad_id, 0.0)
by_hand = -probabilities.gather(-1, tgt_out_ids[..., None]).log().mean()
print(f"loss {loss / n_tokens:.4f}; of guessing among 120 entries: {math.log(config.tgt_vocab):.4f}")
lesson.states(
    "Transformer Components",
    "softmax makes a distribution: least and largest sum over the vocabulary",
    torch.ones(2),
    torch.stack(probabilities.sum(-1).aminmax()),
    within=EXACT,
)
lesson.states(
    "Combining Encoder and Decoder",
    "the loss takes the softmax: its difference from -log p",
    0.0,
    difference(loss / n_tokens, by_hand),
    within=EXACT,
)
lesson.states(
    "Combining Encoder and Decoder",
    "PyTorch's own loss does as well: difference",
    0.0,
    difference(torch.nn.functional.cross_entropy(logits[0], tgt_out_ids[0]), by_hand),
    within=EXACT,
)

# %% [markdown] tags=["more"]
# ### Any batch, any number of layers
#
# The batch may be of any size: nothing in the model depends on it. (In the text's code the size is a constant,
# which has to be changed with the batch.) And since every layer takes and gives 512 numbers for each token, layers
# can be added or taken away.


# %% tags=["more"]
def parameters_of(**changes):
    with torch.device("meta"):  # counts need no memory
        return sum(p.numel() for p in Transformer(ModelConfig.from_name("walkthrough", **changes)).parameters())


with torch.no_grad():
    three_rows = model(src_ids[:, :6].view(3, 2), tgt_in_ids[:, :6].view(3, 2))
lesson.states("Imports and Configurations", "any batch size will do, such as 3", 3, three_rows.shape[0])
stream = {step.shape for step in trace.select("*coder.layers.?.output")}
lesson.states("Combining Encoder and Decoder", "the shape is the same throughout both stacks", 1, len(stream))
for n in (2, 4, 6, 8):
    print(f"{n} + {n} layers: {parameters_of(n_encoder_layers=n, n_decoder_layers=n):>11,} parameters")

# %% [markdown]
# ## The summary
#
# At last the text prints its model, module by module, with the shape of what comes out and the number of
# parameters. This is ours, by `glassformer summary walkthrough`. Layers after a stack's first are folded into one
# line.

# %%
print_summary(model, Console(width=108, force_jupyter=False, color_system=None))

# %% [markdown] tags=["more"]
# ### Row by row
#
# Our rows are the text's, in its order, under our names: `self_attention` is a `SelfAttention`, `layers.0` of the
# encoder an `Encoder`, the stack itself a `ModuleList`. Two kinds of row are ours alone, and hold no parameters:
# `AddAndNorm` keeps a dropout and its norm together, and the embeddings have the dropout that the text leaves out.
# Below is the text's table with our address next to each row, layers 1 to 5 left out, then the comparison of all
# rows.

# %% tags=["more"]
THEIR_NAMES = {
    "": "Transformer",
    "src_embedding": "InputEmbedding",
    "tgt_embedding": "OutputEmbedding",
    "tokens": "Embedding",
    "positions": "PositionalEncoding",
    "encoder": "ModuleList",
    "decoder": "ModuleList",
    "self_attention": "SelfAttention",
    "cross_attention": "CrossAttention",
    "feed_forward": "FeedForward",
    "dropout": "Dropout",
    "norm": "LayerNorm",
    "output_projection": "Linear",
}
OURS_ALONE = ("add_norm", "embedding.dropout")


def to_transformers_name(row):
    last = row.path.rpartition(".")[2]
    return row.kind.removesuffix("Layer") if last.isdigit() else THEIR_NAMES[last]


rows = summary_rows(model)
ours = [row for row in rows if not row.path.endswith(OURS_ALONE)]
for row in ours:
    if not any(f"layers.{n}" in row.path for n in range(1, 6)):
        count = f"{row.parameters:,}" if row.parameters else "--"
        print(f"{to_transformers_name(row):19} {row.path:49} {row.shape!s:14} {count:>9}")

# %% tags=["more"]
WIDE, TABLE = (1, 200, 512), (200, 512)
embedding_rows = [("Embedding", WIDE), ("PositionalEncoding", TABLE), ("ModuleList", None)]
self_rows = [("SelfAttention", WIDE), ("Dropout", WIDE), ("LayerNorm", WIDE)]
cross_rows = [("CrossAttention", WIDE), ("Dropout", WIDE), ("LayerNorm", WIDE)]
forward_rows = [("FeedForward", WIDE), ("Dropout", WIDE), ("LayerNorm", WIDE)]
printed = [
    ("Transformer", (1, 200, 120)),
    ("InputEmbedding", WIDE),
    *embedding_rows,
    *[("Encoder", WIDE), *self_rows, *forward_rows] * 6,
    ("OutputEmbedding", WIDE),
    *embedding_rows,
    *[("Decoder", WIDE), *self_rows, *cross_rows, *forward_rows] * 6,
    ("Linear", (1, 200, 120)),
]
names = [to_transformers_name(row) for row in ours]
shapes = [None if name == "ModuleList" else row.shape for name, row in zip(names, ours, strict=True)]
lesson.states(
    "Codeblock 27",
    f"all {len(printed)} rows and output shapes, in order",
    printed,
    list(zip(names, shapes, strict=True)),
)
for kind, stated in (
    ("Embedding", (2, 51_200, 61_440)),
    ("SelfAttention", (12, 1_050_624)),
    ("CrossAttention", (6, 1_050_624)),
    ("FeedForward", (12, 2_099_712)),
    ("LayerNorm", (30, 1_024)),
    ("Dropout", (30, 0)),
    ("PositionalEncoding", (2, 0)),
    ("Linear", (1, 61_560)),
):
    counts = [row.parameters for name, row in zip(names, ours, strict=True) if name == kind]
    lesson.states(
        "Codeblock 27", f"{kind}: rows, and parameters of each", stated, (len(counts), *sorted(set(counts)))
    )
levels = [len(row.path.replace("layers.", "").replace("add_norm.", "").split(".")) for row in ours if row.path]
lesson.states("Codeblock 27", "rows on its third level, numbered 3-1 to 3-90", 90, levels.count(3))
total = sum(p.numel() for p in model.parameters())
lesson.states("Codeblock 27", "total params", 44_312_696, total)
lesson.states("Codeblock 27", "the rows add up to it", 44_312_696, sum(row.parameters for row in rows))
lesson.states(
    "Codeblock 27", "trainable params", 44_312_696, sum(p.numel() for p in model.parameters() if p.requires_grad)
)
lesson.states(
    "Codeblock 27", "non-trainable params", 0, sum(p.numel() for p in model.parameters() if not p.requires_grad)
)

# %% [markdown]
# Each number can be worked out with the constants alone. And a picture of them shows where the parameters are: more
# than half in the feed-forward blocks, and two fifths in the attention.

# %%
d, d_ff = config.d_model, config.d_ff
print(f"embedding, source:   100 · 512            = {config.src_vocab * d:>9,}")
print(f"attention:           4 · (512 · 512 + 512) = {4 * (d * d + d):>8,}")
print(f"feed-forward:        512 · 2048 + 2048 + 2048 · 512 + 512 = {d * d_ff + d_ff + d_ff * d + d:,}")
print(f"layer norm:          2 · 512              = {2 * d:>9,}")
print(f"linear:              512 · 120 + 120      = {d * config.tgt_vocab + config.tgt_vocab:>9,}")

sums = {}
for name, row in zip(names, ours, strict=True):
    if row.parameters:
        sums[name] = sums.get(name, 0) + row.parameters
sums = dict(sorted(sums.items(), key=lambda item: item[1]))
fig, ax = plt.subplots(figsize=(7.5, 2.8))
bars = ax.barh(list(sums), [count / 1e6 for count in sums.values()], color="C0")
ax.bar_label(bars, [f" {count:,} ({count / total:.1%})" for count in sums.values()], fontsize=8)
ax.set(xlabel="million parameters, all layers together", xlim=(0, 34))
fig.tight_layout()
plt.show()
plt.close("all")
in_attention = (sums["SelfAttention"] + sums["CrossAttention"]) / total
print(f"feed-forward {sums['FeedForward'] / total:.1%}, attention {in_attention:.1%} of all parameters")
assert round(100 * in_attention, 1) == 42.7
assert sums["FeedForward"] > total / 2

# %% [markdown] tags=["more"]
# ### Megabytes
#
# A number in 32 bits takes four bytes, an id in 64 bits eight; a megabyte is a million bytes. The "pass size" of
# the summary is an estimate: what comes out of each layer that has parameters, twice, once for the number and once
# for its gradient. All of these tensors are in our trace.

# %% tags=["more"]
with_parameters = (
    "*_embedding.embedded",
    "*attention.?_projected",
    "*attention.output",
    "*feed_forward.inner",
    "*feed_forward.output",
    "*norm.output",
    "output_projection.logits",
)
input_mb = sum(ids.numel() * ids.element_size() for ids in (src_ids, tgt_in_ids)) / 1e6
pass_mb = sum(2 * step.value.nbytes for glob in with_parameters for step in trace.select(glob)) / 1e6
params_mb = sum(p.nbytes for p in model.parameters()) / 1e6
lesson.states("Codeblock 27", "input size (MB)", 0.00, round(input_mb, 2))
lesson.states("Codeblock 27", "forward/backward pass size (MB)", 134.54, round(pass_mb, 2))
lesson.states("Codeblock 27", "params size (MB)", 177.25, round(params_mb, 2))
lesson.states("Codeblock 27", "estimated total size (MB)", 311.79, round(input_mb + pass_mb + params_mb, 2))
attention_mb = sum(step.value.nbytes for step in trace.select("*attention.weights")) / 1e6
print(
    f"not in the estimate, for one: the attention weights, {attention_mb:.2f} MB, and as much for each step to them"
)

# %% [markdown]
# ### Multiplications
#
# The last number is far off. A "mult-add" is one multiplication with its addition, the unit in which the work of a
# pass is counted. The tool that the text uses multiplies each weight with the size of the batch, which is 1; so it
# prints, in effect, the number of parameters (but for the norms', whose names it does not know). But each weight of
# a linear layer works on each of 200 positions, and the attention multiplies queries with keys, and weights with
# values, without any parameters. PyTorch can count what is really multiplied.

# %%
with torch.no_grad(), FlopCounterMode(display=False) as counter:
    model(src_ids, tgt_in_ids)
mult_adds = counter.get_total_flops() / 2  # it counts multiplication and addition apart

linear = sum(m.weight.numel() for m in model.modules() if isinstance(m, torch.nn.Linear)) * config.max_length
pairs = 2 * sum(step.value.numel() for step in trace.select("*attention.weights")) * config.d_k
print(f"counted: {mult_adds:,.0f}")
print(f"linear layers {linear:,} + attention {pairs:,} = {linear + pairs:,}")
print(f"what the text prints: (all parameters - norms) · batch of 1 = {(total - 30 * 1_024) / 1e6:.2f} million")
assert mult_adds == linear + pairs
lesson.slips(
    "Codeblock 27",
    "million mult-adds of one pass",
    44.28,
    round(mult_adds / 1e6, 2),
    words="Total mult-adds (Units.MEGABYTES): 44.28",
    why="The tool counts each weight once, although it works on 200 positions, and the products inside the attention"
    " not at all; its unit, megabytes, is wrong too.",
)

# %% [markdown]
# ## What to keep
#
# - The text's model and ours are the same to the last parameter: 44,312,696. Every shape that it prints comes out.
# - What it leaves out of the paper: the factor √d_model on embeddings, dropout on them, one matrix shared by both
#   embeddings and the last layer. What it adds: biases in the attention, and a dropout inside the feed-forward
#   block. `ModelConfig.base()` has all of this as in the paper.
# - What it leaves out of a model that is to be trained on sentences: a mask for padding. Ours has it from the
#   start.
#
# **See it live:** in [the living page](../../page.md) the paper's figure 1 is drawn for a model of yours, and every
# box opens. `glassformer explore "I love you, too." --open`; behind its address,
# `#encoder.layers.0.feed_forward.inner` leads to the widened numbers.
#
# ## Exercises

# %%
differs = {
    "scale_embedding": config.scale_embedding != base.scale_embedding,
    "tie_embeddings": config.tie_embeddings != base.tie_embeddings,
    "attention_bias": config.attention_bias != base.attention_bias,
}
assert all(differs.values())
assert base.scale_embedding
assert base.tie_embeddings == "all"
assert not base.attention_bias

# %% tags=["exercises"]
lesson.exercise(
    "How many parameters does the model lose when both stacks have five layers in place of six?",
    7_356_416,
    parameters_of() - parameters_of(n_encoder_layers=5, n_decoder_layers=5),
)
lesson.exercise(
    "And how many does it gain when d_ff is 4096 in place of 2048?",
    12 * (512 * 2048 + 2048 + 2048 * 512),
    parameters_of(d_ff=4096) - parameters_of(),
)
CHANGES = {
    "SEQ_LENGTH": {"max_length": 100}, "VOCAB_SIZE_SRC": {"src_vocab": 50}, "VOCAB_SIZE_DST": {"tgt_vocab": 50},
    "D_MODEL": {"d_model": 256}, "NUM_HEADS": {"n_heads": 4}, "HIDDEN_DIM": {"d_ff": 1024},
    "N": {"n_encoder_layers": 5, "n_decoder_layers": 5}, "DROP_PROB": {"dropout": 0.2},
}  # fmt: skip
lesson.exercise(
    f"Which of {', '.join(CHANGES)} does the number of parameters not depend on?",
    ["SEQ_LENGTH", "NUM_HEADS", "DROP_PROB"],
    [name for name, change in CHANGES.items() if parameters_of(**change) == parameters_of()],
)

# %%
lesson.end()
