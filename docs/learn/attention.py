# %% [markdown]
# # Attention with numbers
#
# *Complete Transformer Attention Walkthrough* (text 002) is a notebook. It takes two short sentences through
# multi-head attention in eight steps and prints what comes out of each. Here the same eight steps run inside the
# encoder of a real glassformer model, and every number that the notebook prints is held against a recomputation.
#
# After this lesson you can compute multi-head attention by hand, from vectors to the output of the last matrix, say
# what each change of shape is for, and check printed numbers against each other.
#
# What the notebook states and what comes out again is folded with the code that holds it. A line with ✗ shows a place
# where the notebook slips: what it states, and what comes out.

# %%
import math

import matplotlib.pyplot as plt
import torch
from lesson import CONSEQUENCE, Lesson

from glassformer import ModelConfig, Transformer, tracing
from glassformer.explain import symbols
from glassformer.model.attention import mask_scores, merge_heads, softmax, split_heads
from glassformer.model.masks import Mask, padding_mask
from glassformer.trace.palette import share_colours, signed_colours

torch.manual_seed(0)
torch.set_printoptions(precision=4, sci_mode=False, linewidth=110)
lesson = Lesson("002", "Complete Transformer Attention Walkthrough")
ROUNDING = 1e-4  # of numbers printed with four decimals

# %% [markdown]
# ## Step 0: two sentences become ids
#
# The vocabulary has seven entries, and number 0 is padding: a filler that makes all rows of a batch equally long.
# Both sentences have three words, and each gets one filler, so that there is something to hide later.

# %%
vocabulary = {"PAD": 0, "The": 1, "cat": 2, "sat": 3, "I": 4, "am": 5, "here": 6}
sentences = ["The cat sat PAD", "I am here PAD"]
ids = torch.tensor([[vocabulary[word] for word in sentence.split()] for sentence in sentences])
words = [sentence.split() for sentence in sentences]
print(ids)

lesson.states("Step 0", "entries of the vocabulary", 7, len(vocabulary))
lesson.states("Step 0", "words in each sentence", [3, 3], [len(row) - row.count("PAD") for row in words])
lesson.states("Step 0", "token ids", [[1, 2, 3, 0], [4, 5, 6, 0]], ids.tolist())
lesson.states("Step 0", "shape (nbatches, n_seq)", [2, 4], list(ids.shape))

# %% [markdown]
# ## Step 1: ids become vectors
#
# Each id takes its row of a table with `d_model` = 8 columns. The notebook fills its table at random and states no
# seed, so it cannot be drawn again. But the two sentences use all seven rows, and the notebook prints the vectors:
# so we know its whole table, and give it to our model.
#
# The model is a Transformer of one layer with two heads, in which everything that the notebook leaves out is
# switched off: vectors are not scaled by √d_model, and the position vectors are zero.

# %%
table = torch.tensor(
    [
        [0.5497, 0.4373, -0.8928, -1.0195, -0.0478, 0.2787, -1.3684, 0.4537],  # PAD
        [1.3679, 0.3618, -0.5893, 0.3309, 0.1397, 0.6632, -0.5643, 1.5214],  # The
        [-1.9882, -0.4915, 0.9148, 0.8288, -0.8523, -0.0460, 0.4177, 1.3448],  # cat
        [0.1492, 0.4637, -1.4802, -1.3158, -2.2878, -2.1838, 0.1744, -0.8128],  # sat
        [0.1047, 1.2801, -1.2533, 0.3623, 1.3270, 0.0127, -1.4751, 1.0377],  # I
        [0.7780, 0.9732, -1.5413, -1.1941, 1.8389, -0.7806, -0.1243, -0.6337],  # am
        [1.1894, 0.3994, -1.6332, 0.5182, -1.0384, -0.0923, -1.5324, 1.1770],  # here
    ]
)

config = ModelConfig(
    src_vocab=7,
    tgt_vocab=7,
    d_model=8,
    n_heads=2,
    d_ff=16,
    n_encoder_layers=1,
    n_decoder_layers=1,
    max_length=4,
    positions="learned",
    scale_embedding=False,
    tie_embeddings="none",
)
model = Transformer(config).eval()
with torch.no_grad():
    model.src_embedding.tokens.weight.copy_(table)
    model.src_embedding.positions.table.zero_()
attention = model.encoder.layers[0].self_attention

with torch.no_grad(), tracing(model, only="src_*") as trace:
    model.encode(ids)
x = trace["src_embedding.with_positions"]
print(x)

the = torch.tensor([1.3679, 0.3618, -0.5893, 0.3309, 0.1397, 0.6632, -0.5643, 1.5214])
lesson.states("Step 1", "shape (nbatches, n_seq, d_model)", [2, 4, 8], list(x.shape))
lesson.states("Step 1", "the vector of 'The'", the, x[0, 0])
lesson.states("Step 1", "d_model in the paper", 512, ModelConfig.base().d_model)

# %% [markdown]
# The table is all that a vector depends on. So both fillers have the same vector: nothing says yet where a word
# stands. (A real Transformer adds position vectors here; the notebook is about attention alone.) We shall need this
# at the end of step 6.

# %%
print("the two fillers have the same vector:", torch.equal(x[0, 3], x[1, 3]))
assert torch.equal(x[0, 3], x[1, 3])

# %% [markdown]
# ## Step 2: the padding mask
#
# The mask says which positions hold a word. The notebook keeps it as ones and zeros, our model as truth values:
# `True` means that a position may be attended to. It gets two axes of size 1, which stretch over all heads and all
# queries.

# %%
src_mask = trace["src_mask"]
print(src_mask)

lesson.states("Step 2", "mask, 1 for a word", [[1, 1, 1, 0], [1, 1, 1, 0]], src_mask[:, 0, 0].int().tolist())
lesson.states("Step 2", "shape before it is reshaped", [2, 4], list((ids != 0).shape))
lesson.states("Step 2", "shape (nbatches, 1, 1, n_seq)", [2, 1, 1, 4], list(padding_mask(ids, 0).shape))
stretched = torch.broadcast_shapes(src_mask.shape, (2, 2, 4, 4))
lesson.states("Step 2", "stretches to (nbatches, h, n_seq, n_seq)", (2, 2, 4, 4), tuple(stretched))

# %% [markdown]
# ## Step 3: four matrices
#
# Two heads share the eight columns, four each. There are four square matrices: three make queries, keys and values,
# and the fourth mixes what the heads have gathered.

# %%
for name, matrix in attention.named_children():
    print(name, tuple(matrix.weight.shape), "bias:", matrix.bias is not None)

lesson.states("Step 3", "heads h", 2, config.n_heads)
lesson.states("Step 3", "d_k = d_model / h", 4, config.d_k)
lesson.states("Step 3", "shape of W_q", [8, 8], list(attention.w_q.weight.shape))
lesson.states("Step 3", "biases in the four matrices", 0, sum(m.bias is not None for m in attention.children()))

# %% [markdown]
# The notebook draws these matrices at random and prints none of them. Yet it prints what they lead to. Those
# numbers are clues, so we can look for matrices that fit them.
#
# - Ours start at random, like the notebook's. Then each is changed as little as its clues demand.
# - `W_q` must turn the printed vectors into the printed queries.
# - The keys of sentence 0 follow: the products Q Kᵀ of step 6 are printed, so K is the solution of four linear
#   equations for each head.
# - Of the values only one mixture is printed, and of the last matrix one result.
#
# Matrices that fit are not the notebook's own, since several fit. But with them our real attention module must
# print what the notebook prints.


# %%
def fit(matrix, inputs, outputs, columns=slice(None)):
    """Change a matrix as little as makes it turn ``inputs`` into the ``columns`` of its output that are known."""
    weight = matrix.weight.detach().double()
    missing = outputs.double() - inputs.double() @ weight[columns].T
    weight[columns] += (torch.linalg.pinv(inputs.double()) @ missing).T
    with torch.no_grad():
        matrix.weight.copy_(weight)


printed_q = torch.tensor(
    [
        [-0.5166, -0.8399, 1.1240, -0.6333, -0.5183, 0.4259, -0.2674, -0.4571],  # The
        [-0.1915, 0.1562, -0.8790, -0.3929, 0.4915, -0.3057, -0.1240, -0.6254],  # cat
        [-0.3095, 0.3828, -1.2461, 0.8325, -0.7844, -0.6981, 1.9459, 1.6369],  # sat
        [0.0453, -0.5539, 0.4856, 0.1726, -0.9883, -0.3127, 0.2092, -0.3390],  # PAD
        [0.4746, 0.0251, 1.4981, -0.5967, -0.8238, -0.2069, -0.5127, -0.7154],  # I
    ]
)
printed_q_of_am = torch.tensor([1.0588, 0.4383, 0.7039, 0.1993, -0.4947, -0.2872])  # here the print-out is cut off

printed_products = torch.tensor(  # of sentence 0, head 0
    [
        [0.1673, -1.2938, 1.0706, 0.1693],
        [-0.6364, 0.3039, 0.0047, 0.0273],
        [0.1687, 0.5906, -0.8376, 0.1491],
        [0.2219, -0.3857, 0.2408, -0.0291],
    ]
)
printed_scores = torch.tensor(  # of both sentences and both heads, already divided by 2
    [
        [
            [
                [0.0837, -0.6469, 0.5353, 0.0846],
                [-0.3182, 0.1519, 0.0024, 0.0136],
                [0.0844, 0.2953, -0.4188, 0.0746],
                [0.1109, -0.1928, 0.1204, -0.0145],
            ],
            [
                [-0.1524, -0.4348, -0.1936, 0.0891],
                [0.0098, 0.1942, -0.1310, -0.0286],
                [0.4636, 0.7938, -0.1351, -0.2739],
                [-0.1893, 0.1109, -0.5606, -0.2232],
            ],
        ],
        [
            [
                [-0.5096, 0.0795, -0.0856, -0.0803],
                [-0.1269, -0.2314, -0.1118, -0.1832],
                [-0.1946, 0.3386, 0.4300, 0.1983],
                [-0.2665, -0.0698, 0.1086, -0.0145],
            ],
            [
                [0.0207, 0.2308, -0.7012, -0.2112],
                [0.0973, -0.0376, -0.1245, -0.1954],
                [0.3621, 0.0742, 0.1147, 0.0064],
                [0.1187, -0.1014, -0.3541, -0.223],  # the last digit is cut off
            ],
        ],
    ]
)
printed_concat = torch.tensor([0.3990, 0.0728, -0.2735, 0.0642, -0.3110, -0.0801, -0.0454, 0.2214])
printed_final = torch.tensor([-0.1838, 0.0888, -0.0824, -0.1091, 0.0114, -0.0534, -0.0661, -0.1518])

# %% [markdown]
# The clues, matrix by matrix. Row 0 of the batch, `x[0]`, holds The, cat, sat and PAD; row 1 begins with I and am.

# %%
both_heads = [slice(0, 4), slice(4, 8)]  # the columns of head 0 and of head 1

five, six = torch.cat([x[0], x[1, :1]]), torch.cat([x[0], x[1, :2]])
fit(attention.w_q, six, torch.cat([printed_q[:, :6], printed_q_of_am[None]]), slice(0, 6))
fit(attention.w_q, five, printed_q[:, 6:], slice(6, 8))

products = torch.stack([printed_products, 2 * printed_scores[0, 1]])  # of sentence 0, both heads
for head, columns in enumerate(both_heads):
    keys = torch.linalg.solve(printed_q[:4, columns], products[head]).T
    fit(attention.w_k, x[0], keys, columns)

hides_padding = Mask.from_visible(src_mask)
weights = softmax(mask_scores(printed_scores, hides_padding), hides_padding)  # held against steps 6c and 6d there
for head, columns in enumerate(both_heads):
    mixture = weights[0, head, :1] @ x[0]
    fit(attention.w_v, mixture, printed_concat[None, columns], columns)
fit(attention.w_o, printed_concat[None], printed_final[None])

# %% [markdown]
# Now one run of the real model. The trace keeps every step of its attention. Next to each shape are its axes:
# first by our symbol, where the notebook says `batch` for nbatches, `seq_len` for n_seq_src and `heads` for h.

# %%
with torch.no_grad(), tracing(model) as trace:
    model.encode(ids)

place = "encoder.layers.0.self_attention."
steps = {step.name: step.value for step in trace.select(place + "*")}
for step in trace.select(place + "*"):
    print(f"{step.name:18} ({', '.join(symbols(step))}) = {step.shape}")

# %% [markdown]
# ## Step 4: queries, keys and values
#
# Each is the input times a matrix: `Q = x W_Q`, `K = x W_K`, `V = x W_V`. The width stays 8.

# %%
print(steps["q_projected"])

lesson.states("Step 4", "shape of x", [2, 4, 8], list(x.shape))
for name in "qkv":
    shape = list(steps[f"{name}_projected"].shape)
    lesson.states("Step 4", f"shape of {name.upper()}: (nbatches, n_seq, d_model)", [2, 4, 8], shape)
q = steps["q_projected"]
lesson.states("Step 4", "Q of The", printed_q[0], q[0, 0], within=ROUNDING)
lesson.states("Step 4", "Q of sentence 0", printed_q[:4], q[0], within=ROUNDING)
lesson.states("Step 4", "Q of I", printed_q[4], q[1, 0], within=ROUNDING)
lesson.states("Step 4", "Q of am, as far as it is printed", printed_q_of_am, q[1, 1, :6], within=ROUNDING)

# %% [markdown]
# ## Step 5: cut into heads
#
# `view` cuts the last axis in two: the first four numbers of a query belong to head 0, the others to head 1. Then
# the axes of heads and positions change places, so that each head has a matrix of its own. No number changes.

# %%
by_position, by_head = steps["q_split"], steps["q"]

fig, axes = plt.subplots(1, 3, figsize=(8, 2.6), width_ratios=[2, 1, 1], layout="constrained")
for axis, values, title in zip(
    axes, [q[0], by_head[0, 0], by_head[0, 1]], ["Q of sentence 0", "head 0", "head 1"], strict=True
):
    axis.imshow(values.numpy(), cmap=signed_colours(), vmin=-2, vmax=2, aspect="auto")
    for row, column in torch.cartesian_prod(torch.arange(4), torch.arange(values.shape[1])).tolist():
        axis.text(column, row, f"{values[row, column]:.2f}", ha="center", va="center", fontsize=7)
    axis.set_title(title, fontsize=9)
    axis.set_yticks(range(4), words[0])
    axis.set_xticks([])
    axis.set_xlabel(f"{values.shape[1]} columns")
axes[0].axvline(3.5, color="black")
plt.show()
plt.close("all")

lesson.states("Step 5", "shape after view: (nbatches, n_seq, h, d_k)", [2, 4, 2, 4], list(split_heads(q, 2).shape))
lesson.states(
    "Step 5", "The, head 0", torch.tensor([-0.5166, -0.8399, 1.1240, -0.6333]), by_position[0, 0, 0], within=ROUNDING
)
lesson.states(
    "Step 5", "The, head 1", torch.tensor([-0.5183, 0.4259, -0.2674, -0.4571]), by_position[0, 0, 1], within=ROUNDING
)
lesson.states("Step 5", "shape after transpose: (nbatches, h, n_seq, d_k)", [2, 2, 4, 4], list(by_head.shape))
lesson.states("Step 5", "shape of what head 0 works on", [2, 4, 4], list(by_head[:, 0].shape))

# %% [markdown]
# Why exchange the axes? The notebook's reason: each head can then work on all positions by itself. That can be
# tried. We replace the queries of head 1 by noise, and look at what head 0 gathers.


# %%
def with_noise_in_head_1(queries):
    queries[:, 1] = torch.randn_like(queries[:, 1])
    return queries


with torch.no_grad(), tracing(model, edits={place + "q": with_noise_in_head_1}) as disturbed:
    model.encode(ids)
changed = [not torch.equal(disturbed[place + "heads"][:, head], steps["heads"][:, head]) for head in (0, 1)]
lesson.states("Step 5", "heads that change when head 1 gets other queries", [1], [h for h in (0, 1) if changed[h]])

# %% [markdown]
# ## Step 6: scaled dot-product attention
#
# ### 6a. Products
#
# Each query is multiplied with each key, in each head: `Q Kᵀ`, one row for each query, one column for each key.
# (The notebook says that a row tells how much a query attends to each key. That is what it will become: so far the
# numbers may be negative, and a row does not sum to 1.)

# %%
print(steps["products"][0, 0])

keys_turned = steps["k"].transpose(-2, -1)
lesson.states("Step 6a", "shape of Kᵀ: (nbatches, h, d_k, n_seq)", [2, 2, 4, 4], list(keys_turned.shape))
lesson.states(
    "Step 6a", "shape of Q Kᵀ: (nbatches, h, n_seq, n_seq)", [2, 2, 4, 4], list((by_head @ keys_turned).shape)
)
lesson.states("Step 6a", "products, sentence 0, head 0", printed_products, steps["products"][0, 0], within=ROUNDING)
head_1 = torch.tensor([[-0.3048, -0.8697, -0.3871, 0.1783], [0.0196, math.nan, math.nan, math.nan]])
seen = ~head_1.isnan()  # the print-out is cut off here
lesson.states(
    "Step 6a",
    "products, head 1, as far as printed",
    head_1[seen],
    steps["products"][0, 1, :2][seen],
    within=2 * ROUNDING,
)

# %% [markdown]
# ### 6b. Scale
#
# The products are divided by √d_k, here 2. A product is a sum of d_k terms, and its spread grows with √d_k.

# %%
scores = steps["scores"]
print(scores[0])

lesson.states("Step 6b", "√d_k", 2.0, math.sqrt(config.d_k))
lesson.states("Step 6b", "scores, sentence 0", printed_scores[0], scores[0], within=ROUNDING)
lesson.states("Step 6b", "the notebook's own division", printed_scores[0, 0], printed_products / 2, within=ROUNDING)

# %% [markdown]
# Were these numbers not bound to come out? Those of sentence 0 were: the keys were chosen so. But sentence 1 was
# not used. It ends with the same filler, whose vector, and so whose key, is the one of sentence 0. So the last
# column of each matrix of sentence 1 is a prediction, wherever we know the query. It comes out. The notebook's
# numbers, from vectors to scores, really hang together.

# %%
for head, query, word in [(0, 0, "I"), (0, 1, "am"), (0, 3, "PAD"), (1, 0, "I"), (1, 3, "PAD")]:
    lesson.states(
        "Step 6b",
        f"score of {word} with PAD, sentence 1, head {head}",
        printed_scores[1, head, query, 3],
        scores[1, head, query, 3],
        within=5 * ROUNDING,  # the solution for the keys magnifies the rounding
    )

# %% [markdown]
# ### 6c. Mask
#
# Scores with the filler are overwritten with a value so low that softmax makes nothing of it. The notebook takes
# -10⁹. Our `mask_scores` takes -∞. From here on we need no fitted matrix: these are the notebook's printed scores, of
# both sentences and both heads, in the functions that the model itself uses.

# %%
hidden = mask_scores(printed_scores, hides_padding)
print(hidden)

lesson.states("Step 6c", "shape of the scores", [2, 2, 4, 4], list(printed_scores.shape))
stretched = torch.broadcast_tensors(src_mask, printed_scores)[0]
lesson.states("Step 6c", "the mask's axis 1 stretches from 1 to", 2, stretched.shape[1])
lesson.states("Step 6c", "the mask's axis 2 stretches from 1 to", 4, stretched.shape[2])
hidden_columns = hidden.isinf().all(dim=(0, 1, 2)).nonzero().flatten().tolist()
lesson.states("Step 6c", "columns that are hidden", [3], hidden_columns)
lesson.slips(
    "Step 6c",
    "shape of what is printed as 'Sentence 0, Head 0'",
    list(hidden[0, 0].shape),
    list(hidden.shape),
    words="Scores after masking (Sentence 0, Head 0):",
    kind=CONSEQUENCE,
    why="The cell prints the whole tensor, both sentences and both heads, under the title of one of the four.",
)

# %% [markdown]
# ### 6d. Softmax
#
# Softmax raises e to each score and divides by the sum of the row. What comes out are weights: positive, and 1 in
# sum.

# %%
weights = softmax(hidden, hides_padding)
print(weights[0, 0])
print("rows sum to", weights[0, 0].sum(-1))

notebook_weights = torch.tensor(
    [
        [0.3276, 0.1578, 0.5146, 0.0000],
        [0.2514, 0.4022, 0.3464, 0.0000],
        [0.3522, 0.4349, 0.2129, 0.0000],
        [0.3640, 0.2686, 0.3674, 0.0000],
    ]
)
lesson.states("Step 6d", "printed scores lead to printed weights", notebook_weights, weights[0, 0], within=ROUNDING)
lesson.states("Step 6d", "weights in the model's run", notebook_weights, steps["weights"][0, 0], within=ROUNDING)
with_low_scores = printed_scores.masked_fill(~src_mask, -1e9).softmax(-1)
lesson.states("Step 6d", "weight of padding, with -10⁹ in its place", 0.0, float(with_low_scores[..., 3].max()))
lesson.states("Step 6d", "sums of the rows", torch.ones(4), weights[0, 0].sum(-1), within=1e-6)

# %%
fig, axes = plt.subplots(2, 2, figsize=(7, 6), layout="constrained")
for sentence in range(2):
    for head in range(2):
        axis, values = axes[sentence, head], weights[sentence, head]
        image = axis.imshow(values.numpy(), cmap=share_colours(), vmin=0, vmax=1)
        for row, column in torch.cartesian_prod(torch.arange(4), torch.arange(4)).tolist():
            axis.text(column, row, f"{values[row, column]:.2f}", ha="center", va="center", fontsize=8)
        axis.set_xticks(range(4), words[sentence])
        axis.set_yticks(range(4), words[sentence])
        axis.set_xlabel("position attended to (key)")
        axis.set_ylabel("position that asks (query)")
        axis.set_title(f"sentence {sentence}, head {head}", fontsize=9)
fig.colorbar(image, ax=axes, label="attention weight", shrink=0.7)
plt.show()
plt.close("all")

# %% [markdown]
# The four pictures follow from the printed scores; the notebook prints the weights of the first. No word looks at a
# filler. The fillers themselves still ask (the last rows), but nobody will look at what they gather.
#
# Why -∞ rather than -10⁹? Here both give the same weights. They differ where a row has nothing but padding, say an
# empty sentence: -10⁹ everywhere is the same as 0 everywhere, so the padding gets all the weight. Ours gets none.

# %%
nothing = torch.zeros(1, 1, 1, 4, dtype=torch.bool)
row = printed_scores[:1, :1, :1]
print("with -10⁹:", row.masked_fill(~nothing, -1e9).softmax(-1).flatten())
print("with -∞:  ", softmax(mask_scores(row, Mask.from_visible(nothing)), Mask.from_visible(nothing)).flatten())
print("the same weights elsewhere:", torch.equal(with_low_scores, weights))
assert torch.equal(with_low_scores, weights)

# %% [markdown]
# ### 6e. The weighted sum of the values
#
# Each query gathers the values of all positions, each with its weight.

# %%
gathered = steps["heads"]
print(gathered[0, 0])

lesson.states("Step 6e", "shape (nbatches, h, n_seq, d_k)", [2, 2, 4, 4], list(gathered.shape))
first_output = torch.tensor([0.3990, 0.0728, -0.2735, 0.0642])
lesson.states("Step 6e", "The, head 0", first_output, gathered[0, 0, 0], within=ROUNDING)
mixed = sum(notebook_weights[0, key] * steps["v"][0, 0, key] for key in range(4))
lesson.states("Step 6e", "printed weights, values mixed by hand", first_output, mixed, within=ROUNDING)

# %% [markdown]
# ## Step 7: heads side by side again
#
# The axes change places again, and the last two become one: each position has eight numbers, four from each head.
# The exchange alone moves no number in memory, it only reads them in another order. `view` cannot flatten that, so
# the notebook first makes a copy in the new order with `contiguous`. Our `merge_heads` leaves that to `flatten`.

# %%
exchanged = gathered.transpose(1, 2)
concat = steps["heads_merged"]
print("strides:", gathered.stride(), "exchanged:", exchanged.stride(), "copied:", exchanged.contiguous().stride())
print(concat[0, 0])

lesson.states("Step 7", "shape after transpose: (nbatches, n_seq, h, d_k)", [2, 4, 2, 4], list(exchanged.shape))
lesson.states("Step 7", "contiguous keeps the shape", [2, 4, 2, 4], list(exchanged.contiguous().shape))
lesson.states(
    "Step 7", "and mends the layout", [False, True], [t.is_contiguous() for t in (exchanged, exchanged.contiguous())]
)
lesson.states(
    "Step 7", "shape side by side: (nbatches, n_seq, d_model)", [2, 4, 8], list(merge_heads(exchanged).shape)
)
lesson.states("Step 7", "The, both heads", printed_concat, concat[0, 0], within=ROUNDING)
lesson.states("Step 7", "its first half is what head 0 gathered", first_output, concat[0, 0, :4], within=ROUNDING)

# %% [markdown]
# ## Step 8: the last matrix
#
# `W_O` mixes what the two heads have gathered. Its result has the width of the input again.

# %%
output = steps["output"]
print(output[0, 0])

lesson.states("Step 8", "shape (nbatches, n_seq, d_model)", [2, 4, 8], list(output.shape))
lesson.states("Step 8", "The", printed_final, output[0, 0], within=ROUNDING)

# %% [markdown]
# ## The eight steps in eight lines
#
# Here is the chain once more as plain tensor arithmetic, with the matrices of our module. Both ways agree, whatever
# the numbers in the matrices are: we try the fitted ones, and then fresh ones.


# %%
def eight_steps(x, mask, matrices):
    w_q, w_k, w_v, w_o = (matrix.weight for matrix in matrices)
    q, k, v = (x @ w.T for w in (w_q, w_k, w_v))
    q, k, v = (heads.view(2, 4, 2, 4).transpose(1, 2) for heads in (q, k, v))
    scores = q @ k.transpose(-2, -1) / math.sqrt(4)
    weights = scores.masked_fill(~mask, -1e9).softmax(dim=-1)
    gathered = (weights @ v).transpose(1, 2).contiguous().view(2, 4, 8)
    return gathered @ w_o.T


def largest_difference():
    with torch.no_grad():
        by_hand = eight_steps(x, src_mask, attention.children())
        by_module = attention(x, x, hides_padding)
    torch.testing.assert_close(by_hand, by_module)
    return float((by_hand - by_module).abs().max())


print("fitted matrices, largest difference:", largest_difference())
for matrix in attention.children():
    matrix.reset_parameters()
print("fresh matrices, largest difference: ", largest_difference())
assert largest_difference() < 1e-5

# %% [markdown]
# ## The summary of shapes
#
# The notebook ends with a list of shapes, and with reasons for the changes of shape. The list begins one step too
# late: what goes into the embedding has no `d_model` axis yet. And it goes from the products straight to softmax: the
# notebook's own steps 6b and 6c, scale and mask, are left out.

# %%
listed = {
    "q_projected": [2, 4, 8],
    "q_split": [2, 4, 2, 4],
    "q": [2, 2, 4, 4],
    "products": [2, 2, 4, 4],
    "weights": [2, 2, 4, 4],
    "heads": [2, 2, 4, 4],
    "heads_by_position": [2, 4, 2, 4],
    "heads_merged": [2, 4, 8],
    "output": [2, 4, 8],
}
lesson.slips(
    "Summary",
    "shape of the input, before the embedding",
    [2, 4, 8],
    list(ids.shape),
    words="Input:        (2, 4, 8)     batch, seq_len, d_model",
    why="The embedding takes token ids, as in the notebook's own step 0; d_model comes with it.",
)
lesson.states("Summary", "shape after the embedding", [2, 4, 8], list(trace["src_embedding.embedded"].shape))
for name, shape in listed.items():
    lesson.states("Summary", f"shape of {name}", shape, list(steps[name].shape))

order = list(steps)
lesson.slips(
    "Summary",
    "steps between the products and softmax",
    [],
    order[order.index("products") + 1 : order.index("weights")],
    words="Scores:       (2, 2, 4, 4)  batch, heads, queries, keys ↓ Softmax",
    kind=CONSEQUENCE,
    why="Softmax is given scaled and masked scores, as in the notebook's steps 6b and 6c; neither changes the shape.",
)

lesson.states(
    "Reasons",
    "(nbatches, h, n_seq, d_k) times (nbatches, h, d_k, n_seq)",
    (2, 2, 4, 4),
    tuple((by_head @ keys_turned).shape),
)
one_by_one = torch.stack([by_head[:, head] @ keys_turned[:, head] for head in range(2)], dim=1)
lesson.states(
    "Reasons", "one product for both heads is the heads' own products", steps["products"], one_by_one, within=1e-6
)

# %% [markdown]
# "Each token now has context from all other tokens" is the last line. For the words it is true: in the model's run
# each draws on both others. For the fillers it is not meant to be: they are tokens too, but the mask of step 2
# keeps everyone from drawing on them.

# %%
drawn_on = steps["weights"].amax(dim=1) > 0  # in some head
others = [[words[0][key] for key in range(4) if drawn_on[0, query, key] and key != query] for query in range(3)]
print(dict(zip(words[0], others, strict=False)))
lesson.states("Summary", "words other than itself that The draws on", ["cat", "sat"], others[0])

# %% [markdown]
# **See it live:** [the living page](../../page.md) shows these steps for a sentence of yours, each number with the
# sum that made it. `glassformer explore "I love you, too." --open`; behind its address,
# `#encoder.layers.0.self_attention.weights` leads to step 6d.
#
# ## Exercises

# %% tags=["exercises"]
lesson.exercise(
    "The printed scores of The in head 0 are 0.0837, -0.6469 and 0.5353, the filler is hidden. What is cat's weight?",
    0.1578,
    math.exp(-0.6469) / sum(math.exp(score) for score in (0.0837, -0.6469, 0.5353)),
    within=ROUNDING,
)
lesson.exercise(
    "What would it be if the filler, with a score of 0.0846, were not hidden?",
    0.1188,
    float(printed_scores[0, 0, 0].softmax(-1)[1]),
    within=1e-4,
)
lesson.exercise(
    "Four heads in place of two, d_model stays 8: what is the shape of the scores of both sentences?",
    [2, 4, 4, 4],
    list((split_heads(q, 4).transpose(1, 2) @ split_heads(q, 4).transpose(1, 2).mT).shape),
)

# %%
lesson.end()
