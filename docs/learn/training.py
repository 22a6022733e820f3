# %% [markdown]
# # Training, and why attention
#
# *Attention is all you need - Training* (text 003) is a page of notes. They tell what goes into the encoder and the
# decoder during training, write the blocks as equations, say why attention beats recurrence, and end with a thought
# about how many ideas fit into a vector. Here a real glassformer model takes one training step, every equation is
# held against it, and the claims about speed and about vectors are counted and measured.
#
# After this lesson you can say what the model sees in training and what it must not see, write an encoder and a
# decoder block as equations, and tell by counting why attention beats recurrence.
#
# What the notes state and what comes out again is folded with the code that holds it. A line with ✗ shows a place
# where the notes slip: what they state, and what comes out.

# %%
import math
import tempfile
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from lesson import CONSEQUENCE, Lesson
from torch import nn
from torch.autograd.functional import jacobian
from torch.utils.flop_counter import FlopCounterMode

from glassformer import ModelConfig, TrainConfig, Transformer, tracing
from glassformer.explain import symbols
from glassformer.model.attention import MultiHeadAttention
from glassformer.model.masks import Mask, causal_mask, padding_mask
from glassformer.text import EncodedPairs, EncodedWriter, collate
from glassformer.trace.palette import share_colours
from glassformer.training.loop.schedule import learning_rate
from glassformer.training.objective.loss import smoothed_loss

torch.manual_seed(0)
torch.set_num_threads(1)
torch.set_printoptions(precision=4, sci_mode=False, linewidth=110)
lesson = Lesson("003", "Attention is all you need - Training")
CLOSE = 1e-5  # two ways to the same number, in single precision

# %% [markdown]
# ## What goes in, and what should come out
#
# The notes take a source of three tokens, S = s₁ s₂ s₃, and a target of four, T = t₁ t₂ t₃ t₄. Ours are *I see you*
# and *ich sehe dich* with `</s>` behind it, the token that ends a sentence. (In our own training a source has it
# too.)
#
# S goes into the encoder. The decoder gets T moved one place to the right, with `<s>` in front: at each place it
# sees the tokens before, and is to say the token that comes there. `collate` makes such batches.

# %%
vocabulary = ["<pad>", "<s>", "</s>", "<unk>", "I", "see", "you", "ich", "sehe", "dich"]
number = {token: place for place, token in enumerate(vocabulary)}


def to_ids(text):
    return [number[token] for token in text.split()]


with tempfile.TemporaryDirectory() as directory:
    with EncodedWriter(Path(directory), len(vocabulary)) as writer:
        writer.append([to_ids("I see you")], [to_ids("ich sehe dich </s>")])
    batch = collate(EncodedPairs(Path(directory)), np.array([0]))


def to_tokens(row):
    return [vocabulary[place] for place in row.tolist()]


source, shifted, target = (to_tokens(ids[0]) for ids in (batch.src_ids, batch.tgt_in_ids, batch.tgt_out_ids))
print("S         ", source)
print("T, shifted", shifted)
print("T         ", target)

lesson.states("Training", "length of S", 3, batch.src_ids.shape[1])
lesson.states("Training", "length of T", 4, batch.tgt_out_ids.shape[1])
lesson.states("Training", "length of T moved to the right", 4, batch.tgt_in_ids.shape[1])
lesson.states("Training", "T moved to the right is <s> t₁ t₂ t₃", ["<s>", *target[:3]], shifted)

# %% [markdown]
# The model is small enough to look at: two layers on each side, vectors of width 24, three heads. Queries and keys
# of one head are 6 wide (`d_k`), values 8 (`d_v`), so that we can tell them apart.

# %%
config = ModelConfig(
    src_vocab=len(vocabulary),
    tgt_vocab=len(vocabulary),
    d_model=24,
    n_heads=3,
    d_k=6,
    d_v=8,
    d_ff=48,
    n_encoder_layers=2,
    n_decoder_layers=2,
    max_length=32,
    dropout=0.0,
    tie_embeddings="none",
)
model = Transformer(config)
with torch.no_grad(), tracing(model) as trace:
    logits = model(batch.src_ids, batch.tgt_in_ids)
print(f"logits (nbatches, n_seq_tgt, vocab) = {tuple(logits.shape)}")

lesson.states("Training", "tokens that are predicted at once", 4, logits.shape[1])

# %% [markdown]
# ## From tokens to the loss
#
# The notes write S and T as matrices of one-hot rows: a row for each token, with a single 1 in the column of its
# number. Such a row times a matrix picks a row of the matrix. So embedding by multiplication, `E_S = emb(S)`, is the
# same as looking rows up.

# %%
one_hot = nn.functional.one_hot(batch.src_ids[0], len(vocabulary)).float()
print(f"one-hot S {tuple(one_hot.shape)} times embedding matrix {tuple(model.src_embedding.tokens.weight.shape)}")

embedded = trace["src_embedding.embedded"][0]
by_product = (one_hot @ model.src_embedding.tokens.weight).detach()
lesson.states("Training", "a product with one-hot rows is a look-up", by_product, embedded, within=CLOSE)

# %% [markdown]
# Then positions are added: `X = Pos(E_S)`. (Our model scales `E_S` by √d_model first, as section 3.4 of the paper
# asks.) X goes through the encoder's layers one after the other, which gives H. In the same way the shifted target
# gives Y, and H and Y go through the decoder's layers: `G = dec(H, Y)`.

# %%
with torch.no_grad():
    x = trace["src_embedding.scaled"] + trace["src_embedding.position_vectors"]
    y = trace["tgt_embedding.scaled"] + trace["tgt_embedding.position_vectors"]
    src_mask = Mask.from_visible(padding_mask(batch.src_ids, config.pad_id))
    look_ahead = Mask.from_visible(causal_mask(4, 4, torch.device("cpu")))
    h = x
    for layer in model.encoder.layers:
        h = layer(h, src_mask)
    g = y
    for layer in model.decoder.layers:
        g = layer(g, h, look_ahead, src_mask)
    prediction = (g @ model.output_projection.linear.weight.T).softmax(-1)

lesson.states("Training", "X is what enters the first layer", trace["src_embedding.with_positions"], x, within=CLOSE)
lesson.states("Training", "H: the encoder's layers, one after the other", trace["encoder.memory"], h, within=CLOSE)
lesson.states("Training", "Y is what enters the first layer", trace["tgt_embedding.with_positions"], y, within=CLOSE)
lesson.states("Training", "G: the decoder's layers, each given H", trace["decoder.output"], g, within=CLOSE)
probabilities = trace["output_projection.probabilities"]
lesson.states("Training", "T̂ = softmax(linear(G))", probabilities, prediction, within=CLOSE)

for layer in range(2):
    k = trace[f"decoder.layers.{layer}.cross_attention.k_projected"]
    w_k = model.decoder.layers[layer].cross_attention.w_k.weight
    lesson.states("Training", f"decoder layer {layer} reads H", (h @ w_k.T).detach(), k, within=CLOSE)

one, other = (dict(layer.named_parameters()) for layer in model.encoder.layers)
shared = [name for name in one if one[name] is other[name]]
lesson.states("Training", "weights that two encoder layers share", [], shared)

# %% [markdown]
# The loss compares T̂ with T as it was before it was moved. Each position pays -log of the probability that it gave
# to the right token. `smoothed_loss` is the one that all training uses; here without label smoothing, since the
# notes have none.


# %%
def losses(predicted):
    """What each position pays."""
    return -predicted[0, range(4), batch.tgt_out_ids[0]].log()


for place in range(4):
    print(f"given {' '.join(shifted[: place + 1]):18} wants {target[place]:5} pays {losses(prediction)[place]:.3f}")

loss, _, tokens = smoothed_loss(logits, batch.tgt_out_ids, config.pad_id, smoothing=0.0)
cross_entropy = losses(prediction).mean()
lesson.states(
    "Training", "T̂ against t₁ t₂ t₃ t₄: cross-entropy per token", cross_entropy, loss / tokens, within=CLOSE
)
lesson.states("Training", "positions compared", 4, tokens)

# %% [markdown]
# ## All positions at once, and still one after the other
#
# In use, a translation is made one token after the other. In training all positions run at once. This is fair
# because of the causal mask, which hides from each position what comes later. So one pass must give what four
# passes give that see no more than is there. We check it with the cache that translating uses.

# %%
with torch.no_grad():
    memory, memory_mask = model.encode(batch.src_ids)
    cache = model.new_cache()
    one_by_one = [model.decode(batch.tgt_in_ids[:, [place]], memory, memory_mask, cache) for place in range(4)]
lesson.states("Training", "one masked pass is four single passes", torch.cat(one_by_one, dim=1), logits, within=CLOSE)

# %% [markdown]
# Who is used to predict whom? We ask the gradient: a token was used if a small change of its vector would change
# the prediction. The notes say that t₁ is predicted from `<s>` and s₁ alone. But the mask is the decoder's. The
# encoder has none: every prediction may use the whole source.


# %%
def tokens_used(place):
    """The source tokens and the decoder's input tokens on which the logits at ``place`` depend."""
    vectors = [torch.nn.Parameter(trace[f"{side}_embedding.with_positions"]) for side in ("src", "tgt")]
    memory = model.encoder(vectors[0], src_mask)
    logits = model.output_projection(model.decoder(vectors[1], memory, look_ahead, src_mask))
    gradients = torch.autograd.grad(logits[0, place].square().sum(), vectors)
    used = [gradient[0].abs().sum(-1) > 0 for gradient in gradients]
    names = [["s₁", "s₂", "s₃"], ["<s>", "t₁", "t₂", "t₃"]]
    return [[name for name, is_used in zip(*pair, strict=True) if is_used] for pair in zip(names, used, strict=True)]


for place in range(4):
    print(f"t{'₁₂₃₄'[place]} is predicted from", *(" ".join(names) for names in tokens_used(place)))

from_source, from_target = tokens_used(0)
lesson.slips(
    "Training",
    "tokens from which t₁ is predicted",
    ["<s>", "s₁"],
    [*from_target, *from_source],
    words="only <s>,s1 is used to predict t1",
    why="Only the decoder's self-attention is masked; the encoder shows every position the whole source.",
)
lesson.states("Training", "what the decoder sees for t₁", ["<s>"], from_target)
lesson.states("Training", "what the decoder sees for t₄", ["<s>", "t₁", "t₂", "t₃"], tokens_used(3)[1])

# %% [markdown]
# This matters for the other case of the notes: "autoregressive" training, where no second language is there and the
# source is the target itself, s₁ = t₁ and so on. The notes say that masking takes care of it. It does not: the
# answers to all positions but the last stand open in the encoder.
#
# To show it we train two small models on random symbols, ten different ones. Nobody can guess them: a model that does
# not see a symbol pays ln 10 ≈ 2.30 for it. One model gets S = t₁ t₂ t₃, the other unrelated symbols.


# %%
def random_rows(n_rows, copies):
    """Sources and targets of random symbols; the source is the start of the target, or has nothing to do with it."""
    target = torch.randint(3, 13, (n_rows, 4))
    source = target[:, :3] if copies else torch.randint(3, 13, (n_rows, 3))
    return source, torch.cat([torch.ones(n_rows, 1, dtype=torch.long), target[:, :3]], dim=1), target


def losses_after_training(copies, updates):
    torch.manual_seed(0)
    sizes = {"d_model": 32, "n_heads": 2, "d_ff": 64, "n_encoder_layers": 1, "n_decoder_layers": 1, "norm": "pre"}
    small = Transformer(ModelConfig(src_vocab=13, tgt_vocab=13, max_length=8, dropout=0.0, **sizes))
    adam = torch.optim.Adam(small.parameters(), lr=4e-3)
    for _ in range(updates):
        source, shifted, target = random_rows(32, copies)
        loss, _, tokens = smoothed_loss(small(source, shifted), target, 0, smoothing=0.0)
        (loss / tokens).backward()
        adam.step()
        adam.zero_grad()
    source, shifted, target = random_rows(512, copies)
    with torch.no_grad():
        return -small(source, shifted).log_softmax(-1).gather(-1, target[..., None]).mean(0).flatten()


given_away, unrelated = losses_after_training(True, 200), losses_after_training(False, 60)

fig, axis = plt.subplots(figsize=(7, 3), layout="constrained")
places = np.arange(4)
axis.bar(places - 0.2, unrelated.numpy(), 0.4, label="source of unrelated symbols")
axis.bar(places + 0.2, given_away.numpy(), 0.4, label="source = t₁ t₂ t₃")
axis.axhline(math.log(10), color="black", linestyle="dotted", label="nothing known: ln 10")
axis.set_xticks(places, ["t₁", "t₂", "t₃", "t₄"])
axis.set_ylabel("loss (nats)")
axis.set_ylim(0, 3.6)
axis.legend(fontsize=8, ncols=3)
plt.show()
plt.close("all")

lesson.slips(
    "Training",
    "loss of t₁ t₂ t₃ where S is their copy, as if masked",
    torch.full((3,), math.log(10)),
    given_away[:3],
    within=1.0,
    words="we use attention and masking to parallel emulate auto-regression",
    kind=CONSEQUENCE,
    why="Nothing masks the encoder, so a source that equals the target gives the answers away.",
)
unseen = torch.full((4,), math.log(10))
lesson.states("Training", "with another source, masking works: loss of t₁ to t₄", unseen, unrelated, within=0.1)

# %% [markdown]
# A model that is to continue a text is trained without an encoder, or gets only what comes before as its source. A
# pair of two languages, as in the rest of the notes, gives nothing away.
#
# ## Attention in equations
#
# A head multiplies X, one row for each position, by three matrices: `Q = X W_Q`, `K = X W_K`, `V = X W_V`. Our
# module keeps the matrices of all heads in one, and turned: each head's own is a piece of it.


# %%
def matrix(linear, head, width):
    """The matrix by which one head multiplies rows from the right."""
    return linear.weight.detach()[head * width : (head + 1) * width].T


self_attention = model.decoder.layers[0].self_attention
place = "decoder.layers.0.self_attention."
steps = {step.name: step for step in trace.select(place + "*")}
w_q, w_k = matrix(self_attention.w_q, 0, config.d_k), matrix(self_attention.w_k, 0, config.d_k)
w_v = matrix(self_attention.w_v, 0, config.d_v)
q, k, v = y[0] @ w_q, y[0] @ w_k, y[0] @ w_v

shapes = {"(d_model, d_k)": [config.d_model, config.d_k], "(d_model, d_v)": [config.d_model, config.d_v]}
lesson.states("Self-attention", "shape of W_Q: (d_model, d_k)", shapes["(d_model, d_k)"], list(w_q.shape))
lesson.states("Self-attention", "shape of W_K: (d_model, d_k)", shapes["(d_model, d_k)"], list(w_k.shape))
lesson.states("Self-attention", "shape of W_V: (d_model, d_v)", shapes["(d_model, d_v)"], list(w_v.shape))
for name, value in {"q": q, "k": k, "v": v}.items():
    lesson.states(
        "Self-attention", f"{name.upper()} = X W_{name.upper()}", value, steps[name].value[0, 0], within=CLOSE
    )
for name in ("q", "k", "v", "products", "weights", "heads"):
    print(f"{name:9} ({', '.join(symbols(steps[name]))}) = {steps[name].shape}")

# %% [markdown]
# Then `Q Kᵀ`, scaled, masked, through softmax, times V. What the notes call scaling "by the key dimension" is a
# division by its square root: a sum of `d_k` products of independent numbers of size 1 has size √d_k, and dividing by
# that brings it back to size 1.

# %%
products = q @ k.T
scores = products / math.sqrt(config.d_k)
hidden = scores.masked_fill(torch.ones(4, 4).triu(1).bool(), -math.inf)
weights = hidden.softmax(-1)
print(hidden)
print(weights)

lesson.states("Self-attention", "shape of Q Kᵀ: (T, T)", [4, 4], list(products.shape))
divisor = float((steps["products"].value / steps["scores"].value).median())
print(f"the products are divided by {divisor:.4f} = √{config.d_k}")
assert math.isclose(divisor, math.sqrt(config.d_k), rel_tol=1e-4)
lesson.states("Self-attention", "-∞ above the diagonal", hidden, steps["masked_scores"].value[0, 0], within=CLOSE)
later = float(steps["weights"].value[0].triu(1).max())
lesson.states("Self-attention", "weight of later positions", 0.0, later)
lesson.states("Self-attention", "softmax(…)", weights, steps["weights"].value[0, 0], within=CLOSE)
lesson.states("Self-attention", "… times V", weights @ v, steps["heads"].value[0, 0], within=CLOSE)
lesson.states("Self-attention", "shape of what a head gives: (T, d_v)", [4, config.d_v], list((weights @ v).shape))

# %%
widths = np.array([4, 8, 16, 32, 64, 128, 256, 512])
spread = np.array([float((torch.randn(2_000, d) * torch.randn(2_000, d)).sum(-1).std()) for d in widths.tolist()])

fig, axis = plt.subplots(figsize=(7, 3), layout="constrained")
axis.loglog(widths, spread, "o-", label="Q Kᵀ")
axis.loglog(widths, spread / np.sqrt(widths), "o-", label="Q Kᵀ / √d_k")
axis.loglog(widths, spread / widths, "o-", label="Q Kᵀ / d_k")
axis.axhline(1.0, color="black", linestyle="dotted")
axis.set_xlabel("width of keys, d_k")
axis.set_ylabel("size of a score\n(standard deviation)")
axis.legend(fontsize=8)
plt.show()
plt.close("all")

# %% [markdown]
# In words the notes go from the mask straight to "matmul by V". Between them stands softmax, which turns -∞ into 0.
# Without it every position but the last, from which nothing is hidden, would come out infinite or as no number.

# %%
lesson.slips(
    "Self-attention",
    "of the four positions, those with finite numbers if V is multiplied by the masked scores",
    [0, 1, 2, 3],
    (hidden @ v).isfinite().all(dim=1).nonzero().flatten().tolist(),
    words="to zero out the attention of future time-steps with current ones. and then finally matmul by V",
    why="The list leaves softmax out, which makes weights of the scores and 0 of -∞.",
    kind=CONSEQUENCE,
)

# %% [markdown]
# ### Several heads
#
# Each head has its own three matrices and gathers for itself. What they gather is laid side by side and multiplied
# by `W_O`.

# %%
heads = []
for head in range(config.n_heads):
    q = y[0] @ matrix(self_attention.w_q, head, config.d_k)
    k = y[0] @ matrix(self_attention.w_k, head, config.d_k)
    v = y[0] @ matrix(self_attention.w_v, head, config.d_v)
    scores = (q @ k.T / math.sqrt(config.d_k)).masked_fill(torch.ones(4, 4).triu(1).bool(), -math.inf)
    heads.append(scores.softmax(-1) @ v)
concat = torch.cat(heads, dim=-1)
h_out = concat @ self_attention.w_o.weight.detach().T

lesson.states("Self-attention", "all heads side by side, times W_O", h_out, steps["output"].value[0], within=CLOSE)
lesson.states("Self-attention", "shape of H_out: (T, d_model)", [4, config.d_model], list(h_out.shape))
lesson.states("Self-attention", "d_v = d_model / h here", config.d_model / config.n_heads, float(concat.shape[1] / 3))

# %% [markdown]
# The notes choose d_v = d_model / h "so that" the result has the shape (T, d_model) again. That is a good choice,
# since many heads then cost as much as one wide head. But it is not what brings the shape back: `W_O` has h·d_v
# rows and d_model columns, whatever d_v is.

# %%
fitting = []
for d_v in (1, 5, 8, 13):
    wide = MultiHeadAttention(ModelConfig(d_model=24, n_heads=3, d_k=6, d_v=d_v), uses_positions=False)
    print(f"d_v = {d_v:2}: W_O is {tuple(wide.w_o.weight.T.shape)}, the output {tuple(wide(y, y, look_ahead).shape)}")
    fitting += [d_v] if wide(y, y, look_ahead).shape == y.shape else []
lesson.slips(
    "Self-attention",
    "values of d_v, of 1, 5, 8 and 13, that bring (T, d_model) back",
    [config.d_model // config.n_heads],
    fitting,
    words="we choose dv to be dmodel/h so that after concatenating the outputs of multiple heads and matmul by WO we"
    " get a matrix of shape Hout=(T,dmodel) again",
    kind=CONSEQUENCE,
    why="W_O maps h·d_v columns to d_model for any d_v; d_v = d_model / h keeps the cost, not the shape.",
)

# %% [markdown]
# ## The blocks
#
# An encoder block is two lines: `L = norm(MHattn(X) + X)` and `enc = norm(MLP(L) + L)`. A decoder block is three:
# masked attention among the target, attention to H, and the MLP, each with a sum and a norm. We write them down
# with the model's own sublayers, layer after layer.


# %%
def norm(x):
    """To mean 0 and variance 1 in each row; a fresh model's gain is 1 and its bias 0."""
    return (x - x.mean(-1, keepdim=True)) / (x.var(-1, correction=0, keepdim=True) + config.norm_eps).sqrt()


with torch.no_grad():
    previous = x
    for index, block in enumerate(model.encoder.layers):
        middle = norm(block.self_attention(previous, previous, src_mask) + previous)
        previous = norm(block.feed_forward(middle) + middle)
        recorded = trace[f"encoder.layers.{index}.output"]
        lesson.states("Encoder block", f"both lines, layer {index}", previous, recorded, within=CLOSE)

    previous = y
    for index, block in enumerate(model.decoder.layers):
        a = norm(block.self_attention(previous, previous, look_ahead) + previous)
        b = norm(block.cross_attention(a, h, src_mask) + a)  # queries from A; keys and values from H
        previous = norm(block.feed_forward(b) + b)
        recorded = trace[f"decoder.layers.{index}.output"]
        lesson.states("Decoder block", f"all three lines, layer {index}", previous, recorded, within=CLOSE)

# %% [markdown]
# At the end the notes take the line for B back: "in actuality" attention to the encoder used K and V that the last
# encoder layer had stored. But the line was right. H itself goes to each decoder layer, and each multiplies it by
# matrices of its own. The last encoder layer has keys and values too, but they are made of its input, not of its
# output H, and nobody else reads them.

# %%
stored = trace["encoder.layers.1.self_attention.k_projected"]
layers = [f"decoder.layers.{index}.cross_attention." for index in range(2)]
lesson.slips(
    "Decoder block",
    "decoder layers whose cross-attention reads the last encoder layer's stored K",
    2,
    sum(torch.allclose(trace[layer + "k_projected"], stored, atol=CLOSE) for layer in layers),
    words="actually uses the final stored K,V matrices from the final encoder head",
    why="Each decoder layer makes its own K and V from the encoder's output H with its own W_K and W_V.",
)
made_of_h = sum(
    torch.allclose(trace[layer + "v_projected"], h @ block.cross_attention.w_v.weight.T, atol=CLOSE)
    for layer, block in zip(layers, model.decoder.layers, strict=True)
)
lesson.states("Decoder block", "decoder layers whose V is made of H by a matrix of their own", 2, made_of_h)
asked = a @ block.cross_attention.w_q.weight.T
lesson.states("Decoder block", "Q is made of A", asked.detach(), trace[layers[1] + "q_projected"], within=CLOSE)

# %% [markdown]
# ## One training step
#
# The loss flows back. At the logits the gradient is simply T̂ - T: predicted probability minus the one-hot row of
# the right token. From there it reaches every weight of decoder and encoder.

# %%
model.zero_grad()
logits = model(batch.src_ids, batch.tgt_in_ids)
logits.retain_grad()
loss, _, tokens = smoothed_loss(logits, batch.tgt_out_ids, config.pad_id, smoothing=0.0)
(loss / tokens).backward()

wanted = nn.functional.one_hot(batch.tgt_out_ids[0], len(vocabulary))
error = (probabilities[0] - wanted) / tokens
lesson.states("Training", "gradient at the logits: T̂ - T, over 4 tokens", error, logits.grad[0], within=CLOSE)
without = [name for name, weight in model.named_parameters() if weight.grad is None]
lesson.states("Training", "weights that get no gradient", [], without)
for name in ("src_embedding", "encoder.layers.0", "encoder.layers.1", "decoder.layers.0", "decoder.layers.1"):
    gradients = [weight.grad.flatten() for weight in model.get_submodule(name).parameters()]
    print(f"{name:17} {sum(map(len, gradients)):6,} weights, gradient of length {torch.cat(gradients).norm():.3f}")

# %% [markdown] tags=["more"]
# ### Adam by hand
#
# Plain gradient descent would subtract a multiple of the gradient. The paper's Adam keeps a running mean m of the
# gradient and one of its square, v, and subtracts `rate · m̂ / (√v̂ + ε)`, where the hat makes up for the means'
# start at zero. In the first step m̂ is the gradient g itself and v̂ its square. So each weight moves by almost
# exactly the rate, up or down: only the gradient's sign counts.
#
# The rate comes from the paper's equation 3. We let it rise for 60 steps; the paper takes 4,000.

# %% tags=["more"]
settings = TrainConfig(warmup=60)
rate = learning_rate(1, settings, config.d_model)
adam = torch.optim.Adam(
    model.parameters(), lr=rate, betas=(settings.adam_beta1, settings.adam_beta2), eps=settings.adam_eps
)
weight = model.output_projection.linear.weight
before, gradient = weight.detach().clone(), weight.grad.clone()
adam.step()

m = (1 - settings.adam_beta1) * gradient
v = (1 - settings.adam_beta2) * gradient**2
m_hat, v_hat = m / (1 - settings.adam_beta1), v / (1 - settings.adam_beta2)
by_formula = before - rate * m_hat / (v_hat.sqrt() + settings.adam_eps)
print(f"rate of step 1: {rate:.5f}; weights moved by {(weight - before).abs().median():.5f} (median)")
torch.testing.assert_close(by_formula, weight.detach())

# %% [markdown] tags=["more"]
# The same step again and again makes the model sure of this one sentence. Below, each row is a position of the
# decoder, each column an entry of the vocabulary, and the shade is the probability: before, and after 30 steps.


# %% tags=["more"]
def training_step(update):
    """What one update of our training does: forward, loss, backward, rate, Adam."""
    logits = model(batch.src_ids, batch.tgt_in_ids)
    loss, _, tokens = smoothed_loss(logits, batch.tgt_out_ids, config.pad_id, smoothing=0.0)
    adam.zero_grad()
    (loss / tokens).backward()
    adam.param_groups[0]["lr"] = learning_rate(update, settings, config.d_model)
    adam.step()
    return float(loss.detach() / tokens), logits.detach()[0].softmax(-1)


history = [float(loss.detach() / tokens)]
for update in range(2, 32):
    value, after = training_step(update)
    history.append(value)
print(f"loss: {history[0]:.3f} at first, {history[1]:.3f} after one step, {history[-1]:.3f} after thirty")
assert history[-1] < 0.1 * history[0]

fig, axes = plt.subplots(1, 2, figsize=(8, 3), layout="constrained", sharey=True)
for axis, shades, title in zip(axes, [probabilities[0], after], ["before", "after 30 steps"], strict=True):
    image = axis.imshow(shades.numpy(), cmap=share_colours(), vmin=0, vmax=1)
    axis.set_xticks(range(len(vocabulary)), vocabulary, rotation=60, fontsize=8)
    axis.set_yticks(range(4), [f"given …{given}" for given in shifted])
    axis.set_title(title, fontsize=9)
    axis.set_xlabel("next token")
fig.colorbar(image, ax=axes, label="probability", shrink=0.7)
plt.show()
plt.close("all")

lesson.states("Training", "descent on the cross-entropy leads from T̂ to T", target, to_tokens(after.argmax(-1)))

# %% [markdown]
# ## Why attention? Count the work
#
# Here the notes point to two pictures, which are not part of the text; their words follow the paper's table 1. It
# compares four kinds of layer on n positions of width d:
#
# | layer | operations | one after the other | longest path |
# | --- | --- | --- | --- |
# | self-attention | n²·d | 1 | 1 |
# | recurrent | n·d² | n | n |
# | convolutional, k neighbours | k·n·d² | 1 | log_k n |
# | self-attention, restricted to r neighbours | r·n·d | 1 | n / r |
#
# Each entry leaves out constant factors, and says how the number grows. The first row counts the two products of
# attention, `Q Kᵀ` and the one with V; the four matrices before and after them add 4·n·d².
#
# First we count multiplications in real layers: our own attention, and torch's GRU (a recurrent layer) and
# convolution. Restricted attention is our own function: each query is multiplied with its r neighbours alone.

# %%
K, R = 3, 17  # neighbours of the convolution and of restricted attention


def attention_layer(d):
    return MultiHeadAttention(ModelConfig(d_model=d, n_heads=1), uses_positions=False)


def near(n, r):
    """The mask of restricted attention: True where the key is one of the r positions around the query."""
    place = torch.arange(n)
    return ((place[:, None] - place[None, :]).abs() <= r // 2)[None, None]


def restricted_attention(q, k, v, r=R):
    """Attention of each query (n d) to its r neighbours, without the other products."""
    around = torch.nn.functional.pad(torch.arange(len(q)), (r // 2, r // 2), value=-1).unfold(0, r, 1)
    scores = (q[:, None] @ k[around].transpose(1, 2)).squeeze(1) / math.sqrt(q.shape[1])
    weights = scores.masked_fill(around < 0, -math.inf).softmax(-1)
    return (weights[:, None] @ v[around]).squeeze(1)


def layers_at_work(n, d):
    """One run of each kind of layer over n positions of width d."""
    attention, gru, convolution = attention_layer(d), nn.GRU(d, d), nn.Conv1d(d, d, K, padding=K // 2)
    x, everywhere = torch.randn(1, n, d), Mask.from_visible(torch.ones(1, 1, 1, n, dtype=torch.bool))
    by_column, by_place = x.transpose(1, 2).contiguous(), x.transpose(0, 1).contiguous()
    return {
        "self-attention": lambda: attention.attend(x[:, None], x[:, None], x[:, None], everywhere),
        "recurrent (GRU)": lambda: gru(by_place),
        f"convolution, k = {K}": lambda: convolution(by_column),
        f"restricted, r = {R}": lambda: restricted_attention(x[0], x[0], x[0]),
    }


q, k, v = torch.randn(3, 40, 8)
full = attention_layer(8).attend(q[None, None], k[None, None], v[None, None], Mask.from_visible(near(40, R)))[0, 0]
print(
    "restricted attention is attention under a mask:", torch.allclose(restricted_attention(q, k, v), full, atol=1e-6)
)

# %%


def multiplications(layer):
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        layer()
    return counter.get_total_flops() // 2  # a flop counter counts additions too


base, long, wide = layers_at_work(64, 32), layers_at_work(128, 32), layers_at_work(64, 64)
powers = {}
for kind in base:
    counts = [multiplications(layers[kind]) for layers in (base, long, wide)]
    powers[kind] = [math.log2(counts[1] / counts[0]), math.log2(counts[2] / counts[0])]
    print(f"{kind:19} n=64 d=32: {counts[0]:9,}   n=128: {counts[1]:9,}   d=64: {counts[2]:9,}")

stated = {"self-attention": [2, 1], "recurrent (GRU)": [1, 2], f"convolution, k = {K}": [1, 2]}
stated[f"restricted, r = {R}"] = [1, 1]
for kind, exponents in stated.items():
    lesson.states(
        "Why attention?, table 1 of the paper",
        f"{kind}: powers of n and d in the work",
        exponents,
        powers[kind],
        within=1e-9,
    )

# %% [markdown] tags=["more"]
# ### The work by the clock
#
# Now by the clock. A power law is a straight line where both axes are logarithmic, and its power is the slope; the
# legend gives the slope of the last three points. Small sizes are flat: there the time goes into calling functions,
# not into multiplying. A recurrent layer also waits for itself n times, which no count of multiplications shows.


# %% tags=["more"]
def seconds(layer):
    """The best of three runs: whatever else the machine does can only make a run slower."""
    best = math.inf
    for _ in range(3):
        start = time.perf_counter()
        layer()
        best = min(best, time.perf_counter() - start)
    return best


def slope(x, y):
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


sweeps = {
    "positions n, at d = 64": ([128, 256, 512, 1024, 2048], lambda n: layers_at_work(n, 64)),
    "width d, at n = 256": ([64, 128, 256, 512, 1024], lambda d: layers_at_work(256, d)),
}
fig, axes = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained", sharey=True)
for axis, (label, (sizes, build)) in zip(axes, sweeps.items(), strict=True):
    with torch.no_grad():
        times = [{kind: seconds(layer) for kind, layer in build(size).items()} for size in sizes]
    for kind in times[0]:
        line = [1000 * time[kind] for time in times]
        axis.loglog(sizes, line, "o-", markersize=3, label=f"{kind}: {slope(sizes[-3:], line[-3:]):.1f}")
    axis.set_xlabel(label)
    axis.set_xticks(sizes, sizes)
    axis.minorticks_off()
    axis.legend(title="layer: slope", fontsize=7, title_fontsize=7)
axes[0].set_ylabel("time of one layer (ms)")
plt.show()
plt.close("all")

# %% [markdown]
# Attention gets dear with long sequences, recurrence and convolution with wide vectors. Sentences are short: as
# long as n is below d, the products of attention cost less than a recurrent or convolutional layer.
#
# ## One after the other
#
# More telling is how much of the work must wait for other work. We follow the chain of operations from the output
# back to the input, as recorded for the gradient, and take the longest. In attention it does not depend on n: with
# enough processors, all positions are done at once. A recurrent layer must finish each position before it starts
# the next.


# %%
def longest_chain(output):
    """Operations in the longest chain from the output back to the input."""
    lengths, waiting = {}, [output.grad_fn]
    while waiting:
        node = waiting[-1]
        parents = [parent for parent, _ in node.next_functions if parent is not None]
        missing = [parent for parent in parents if parent not in lengths]
        if missing:
            waiting.extend(missing)
            continue
        lengths[waiting.pop()] = 1 + max((lengths[parent] for parent in parents), default=0)
    return lengths[output.grad_fn]


def chains(n, d=8):
    x = torch.randn(1, n, d, requires_grad=True)
    attention, gru, convolution = attention_layer(d), nn.GRU(d, d, batch_first=True), nn.Conv1d(d, d, K, padding=1)
    outputs = [attention(x, x, Mask.from_visible(near(n, n * 2))), gru(x)[0], convolution(x.transpose(1, 2))]
    return [longest_chain(output) for output in outputs]


short, longer = chains(16), chains(128)
for kind, a, b in zip(("self-attention", "recurrent (GRU)", "convolution"), short, longer, strict=True):
    print(f"{kind:16} n = 16: {a:4} operations in a row   n = 128: {b:4}")

lesson.states(
    "Why attention?", "self-attention: times the chain grows when n is 8 times as long", 1.0, longer[0] / short[0]
)
lesson.states("Why attention?", "recurrent: the same, about 8", 8.0, longer[1] / short[1], within=0.5)
lesson.states("Why attention?, table 1 of the paper", "convolution: the same", 1.0, longer[2] / short[2])

# %% [markdown]
# The same holds for the whole model in training. One call gives the predictions for the whole sequence; above, one
# pass over four target tokens gave what four single passes give. (A translation in use is still written token by
# token: there the decoder runs once for each.)

# %%
with torch.no_grad(), tracing(model) as passes:
    model(batch.src_ids, batch.tgt_in_ids)
calls = len(passes.select("decoder.output"))
lesson.states("Why attention?", "forward passes for a whole sequence, in training", 1, calls)

# %% [markdown] tags=["more"]
# ## How far is it from one position to another?
#
# The last column of the table: through how many layers (or, in a recurrent layer, time steps) must a signal pass
# from the first position to the last? We let the gradient tell which outputs of a real layer depend on which
# inputs, and hop along until the last position hears of the first.
#
# Convolution reaches log_k n only when each layer skips more than the one before (dilation 1, k, k² ...). With
# layers all alike it takes (n - 1) / (k - 1), rounded up.


# %% tags=["more"]
def dependence(layer, n, d=4):
    """(output position, input position): True where one depends on the other, by the gradient of a real layer."""
    gradient = jacobian(lambda x: layer(x).sum(-1), torch.randn(n, d))
    return gradient.abs().sum(-1) > 0


def hops(dependence_in_hop, n):
    """Layers passed until the last position depends on the first."""
    reached, hop = torch.eye(n), 0
    while not reached[-1, 0]:
        reached = (dependence_in_hop(hop).float() @ reached > 0).float()
        hop += 1
    return hop


def attention_paths(n, mask):
    attention = attention_layer(4)
    each = dependence(lambda x: attention(x[None], x[None], Mask.from_visible(mask))[0], n)
    return hops(lambda hop: each, n)


def convolution_paths(n, growth):
    """Each position reads itself and K - 1 positions before it, ``growth**hop`` apart."""

    def in_hop(hop):
        step = growth**hop
        convolution = nn.Conv1d(4, 4, K, dilation=step)
        return dependence(lambda x: convolution(nn.functional.pad(x.T, ((K - 1) * step, 0))).T, n)

    return hops(in_hop, n)


def recurrent_paths(n):
    """One hop is one time step: the state at each position, made from the state before it."""
    cell = nn.GRUCell(4, 4)
    each = dependence(lambda states: cell(torch.ones(n, 4), torch.cat([torch.zeros(1, 4), states[:-1]])), n)
    return hops(lambda hop: each, n)


lengths = [8, 16, 32, 64]
kinds = {
    "self-attention": lambda n: attention_paths(n, near(n, 2 * n)),
    f"convolution, dilated, k = {K}": lambda n: convolution_paths(n, K),
    f"restricted attention, r = {R}": lambda n: attention_paths(n, near(n, R)),
    f"convolution, all alike, k = {K}": lambda n: convolution_paths(n, 1),
    "recurrent": recurrent_paths,
}
paths = {kind: [count(n) for n in lengths] for kind, count in kinds.items()}

fig, axis = plt.subplots(figsize=(7, 3.2), layout="constrained")
for kind, path in paths.items():
    axis.loglog(lengths, path, "o-", label=kind)
    print(f"{kind:31} n = {lengths}: {path}")
axis.set_xticks(lengths, lengths)
axis.set_yticks([1, 2, 4, 8, 16, 32, 64], [1, 2, 4, 8, 16, 32, 64])
axis.minorticks_off()
axis.set_xlabel("positions n")
axis.set_ylabel("longest path")
axis.legend(fontsize=7)
plt.show()
plt.close("all")

lesson.states("Why attention?", "path length of self-attention, whatever n is", [1, 1, 1, 1], paths["self-attention"])
lesson.states(
    "Why attention?, table 1 of the paper",
    "path length of recurrence: n, less the step in",
    [n - 1 for n in lengths],
    paths["recurrent"],
)
reach = [math.ceil(2 * (n - 1) / (R - 1)) for n in lengths]  # (R - 1) / 2 on each side
lesson.states(
    "Why attention?, table 1 of the paper",
    "restricted: grows like n / r",
    reach,
    paths[f"restricted attention, r = {R}"],
)
logs = [math.ceil(math.log(n, K)) for n in lengths]
lesson.states(
    "Why attention?, table 1 of the paper",
    "convolution, dilated: log_k n, rounded up",
    logs,
    paths[f"convolution, dilated, k = {K}"],
)

# %% [markdown]
# ## Superposition: how many ideas fit into a vector?
#
# In N dimensions there are N directions at right angles and no more. If each stands for an idea, a vector that is
# the sum of some of them can be read exactly: its dot product with each direction is 1 where the idea is part of
# it, and 0 where not.

# %%
N = 512  # the paper's d_model


def directions(count, n):
    """Random vectors of length 1."""
    vectors = torch.randn(count, n)
    return vectors / vectors.norm(dim=1, keepdim=True)


axes_turned = torch.linalg.qr(torch.randn(N, N)).Q.T
ideas = [3, 141, 500]
read = axes_turned @ axes_turned[ideas].sum(0)
lesson.states(
    "Superposition",
    "directions at right angles in 512 dimensions",
    N,
    int(torch.linalg.matrix_rank(directions(2 * N, N))),
)
lesson.states("Superposition", "ideas read from a sum of three", ideas, (read > 0.5).nonzero().flatten().tolist())
noise = float(read[[place for place in range(N) if place not in ideas]].abs().max())
lesson.states("Superposition", "and nothing of the others", 0.0, noise, within=1e-5)

# %% [markdown]
# Now let directions be a little off: each pair may differ from a right angle by at most ε, so that |cos| is at most
# sin ε. Then more fit. The notes say that their number grows as e^(εN). That it grows exponentially with N is
# right; we measure it. The exponent is not: for small ε it grows like ε² (up to a logarithm), not like ε, and for
# small ε that is very much less.
#
# Three numbers can be had for each N and ε:
#
# - **Measured.** Draw 20,000 random directions and keep each that fits with those kept before.
# - **At least.** Let p be the chance that two random directions are too close. Continue until nothing fits any more:
#   then the regions too close to a kept direction cover everything. Each covers the part p, so there are at least 1
#   / p of them. As p falls like e^(-ε²N/2), this grows like e^(ε²N/2).
# - **At most.** Take M directions and the mean of cos²ᵏ over all pairs, each with itself included. It is never
#   below the mean mₖ over the whole sphere, mₖ = 1·3·5···(2k-1) / (N (N+2) ··· (N+2k-2)) (Welch, Sidelnikov). On
#   the other hand it is at most (1 + (M-1) sin²ᵏε) / M. So M ≤ (1 - sin²ᵏε) / (mₖ - sin²ᵏε) for each k for which
#   the divisor is positive; we take the best k.


# %%
def most(n, epsilon):
    """Natural logarithm of a number of directions that cannot be exceeded."""
    best, log_mean = math.inf, 0.0
    for k in range(1, n + 1):
        log_mean += math.log((2 * k - 1) / (n + 2 * k - 2))
        log_cos = 2 * k * math.log(math.sin(epsilon))
        if log_mean > log_cos:
            bound = math.log1p(-math.exp(log_cos)) - log_mean - math.log1p(-math.exp(log_cos - log_mean))
            best = min(best, bound)
    return best


def least(n, epsilon):
    """Natural logarithm of 1 / p, with p the chance that two random directions are closer than allowed."""
    cosines = torch.linspace(math.sin(epsilon), 1, 20_001, dtype=torch.float64)
    density = math.lgamma(n / 2) - math.lgamma((n - 1) / 2) - math.log(math.pi) / 2
    return -math.log(2 * float(torch.trapezoid((1 - cosines**2) ** ((n - 3) / 2), cosines))) - density


def keep_spread_out(n, epsilon, tries=20_000, block=500):
    """Random directions that fit, one after the other."""
    limit, found = math.sin(epsilon), torch.empty(0, n)
    for _ in range(tries // block):
        candidates = directions(block, n)
        fits = ((candidates @ found.T).abs() <= limit).all(dim=1)
        new = torch.empty(0, n)
        for candidate in candidates[fits]:
            if ((new @ candidate).abs() <= limit).all():
                new = torch.cat([new, candidate[None]])
        found = torch.cat([found, new])
    return found


print("the smallest case by hand: in 2 dimensions, 30° off, at most", round(math.exp(most(2, math.pi / 6)), 2))

# %% [markdown]
# (In the plane, with angles of at least 60°, there are three directions. The bound gives just that.) Now the
# measurement, for five N at each of four angles:

# %%
torch.manual_seed(0)
measured = {}
for epsilon in (0.2, 0.3, 0.4, 0.5):
    dimensions = [round(factor / epsilon**2) for factor in (2, 4, 6, 8, 10)]
    measured[epsilon] = (dimensions, [len(keep_spread_out(n, epsilon)) for n in dimensions])
    print(f"ε = {epsilon}: N = {dimensions}: {measured[epsilon][1]} directions")

growth = {epsilon: float(np.polyfit(n, np.log(counts), 1)[0]) for epsilon, (n, counts) in measured.items()}
power = slope(list(growth), list(growth.values()))

fig, axes = plt.subplots(1, 2, figsize=(8, 3.8), layout="constrained")
epsilon, sizes = 0.2, np.arange(20, 520, 20)
dimensions, counts = measured[epsilon]
axes[0].plot(sizes, epsilon * sizes / math.log(10), "--", label="e^(εN), as in the notes")
axes[0].plot(sizes, [most(n, epsilon) / math.log(10) for n in sizes.tolist()], label="at most")
axes[0].plot(dimensions, np.log10(counts), "o", label="measured")
axes[0].plot(sizes, [least(n, epsilon) / math.log(10) for n in sizes.tolist()], label="at least")
axes[0].set_xlabel("dimensions N, at ε = 0.2")
axes[0].set_ylabel("directions that fit, as a power of ten")
angles = np.array([0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5])
axes[1].loglog(angles, angles, "--", label="ε, as in the notes")
axes[1].loglog(angles[:4], [most(2_000, angle) / 2_000 for angle in angles[:4].tolist()], label="at most (N = 2000)")
axes[1].loglog(list(growth), list(growth.values()), "o", label=f"measured: slope {power:.1f}")
axes[1].loglog(angles, -np.log(np.cos(angles)), label="at least: about ε²/2")
axes[1].set_xlabel("angle ε (radians)")
axes[1].set_ylabel("growth of the exponent\nfor each dimension")
axes[1].set_xticks(angles[[0, 1, 3, 6]], angles[[0, 1, 3, 6]])
axes[1].minorticks_off()
for axis in axes:
    axis.legend(fontsize=7)
plt.show()
plt.close("all")

# %% [markdown]
# On the left, at a fixed angle, the logarithm of the number is a straight line: exponential growth. But from some
# hundred dimensions on the line of the notes lies above what is possible. On the right is how steep such lines are
# for each angle. The measured points have a slope near 2 there: half the angle leaves a quarter of the exponent.
# (Drawing at random is not the best way: for N = 50 and ε = 0.2 it finds fewer than the 50 right angles. What can
# be done lies between the two bounds.) The upper bound falls faster than ε too, like e·ε²·ln(1/ε), so no constant
# before εN would mend the formula: for small angles it always ends up above.

# %%
assert 1.5 < power < 2.5
assert measured[0.2][0][0] == 50 > measured[0.2][1][0]
assert all(most(int(n), 0.2) < 0.2 * n for n in sizes if n > 250)
dimensions, counts = measured[0.3]
straight = float(np.corrcoef(dimensions, np.log(counts))[0, 1])
lesson.states(
    "Superposition", "more than N directions fit, for N = 111 and ε = 0.3", True, counts[-1] > dimensions[-1]
)
lesson.states("Superposition", "exponential in N: log(number) against N, correlation", 1.0, straight, within=0.02)
lesson.slips(
    "Superposition",
    "directions in 512 dimensions at ε = 0.1 (computed: at most)",
    f"{math.exp(0.1 * N):.0e}",
    f"{math.exp(most(N, 0.1)):.0e}",
    words="the number of directions grows as e(ϵN)",
    kind=CONSEQUENCE,
    why="The exponent grows like ε², up to a logarithm of ε, not like ε: e^(εN) exceeds a proven upper bound.",
)

# %% [markdown]
# It is still a lot. Last, can so many ideas be read back? We give 5,000 ideas a random direction each in 512
# dimensions, add up five, and take dot products as before. The others now answer a little too, but the five stand
# out.

# %%
torch.manual_seed(0)
many = directions(5_000, N)
ideas = [7, 1_000, 2_024, 3_333, 4_999]
read = many @ many[ideas].sum(0)

fig, axis = plt.subplots(figsize=(7, 2.6), layout="constrained")
axis.plot(read.numpy(), ".", markersize=2, color="grey", label="not part of the sum")
axis.plot(ideas, read[ideas].numpy(), "o", label="part of the sum")
axis.set_xlabel("idea")
axis.set_ylabel("dot product")
axis.legend(fontsize=8, loc="center right")
plt.show()
plt.close("all")

share = many.square().amax(dim=1)
print(f"the strongest neuron holds {100 * float(share.mean()):.1f} % of a direction's squared length on average")
lesson.states("Superposition", "ideas that are mainly one neuron", 0, int((share > 0.5).sum()))
lesson.slips(
    "Superposition",
    "ideas of the five that one direction each does not suffice to read",
    5,
    5 - len(set(ideas) & set((read > 0.6).nonzero().flatten().tolist())),
    words="most semantic features are not a single direction or a single neuron",
    kind=CONSEQUENCE,
    why="In superposition each idea is a single direction, as the notes say first; only not one neuron's.",
)

# %% [markdown]
# ## Exercises

# %% tags=["exercises"]
lesson.exercise(
    "The first update of Adam, a gradient of 0.002 and a rate of 0.01: by how much does the weight move?",
    0.01,
    0.01 * 0.002 / (math.sqrt(0.002**2) + settings.adam_eps),
    within=1e-5,
)
reads = ["<s>", "a", "b", "c"]
lesson.exercise(
    "The target is a b c </s>. In training the decoder reads <s> a b c. Which of these four places may look at b?",
    ["b", "c"],
    [reads[query] for query in range(4) if causal_mask(4, 4, torch.device("cpu"))[0, 0, query, 2]],
)
lesson.exercise(
    "Restricted attention with r = 5 neighbours: through how many layers to the position 20 places on?",
    10,
    attention_paths(21, near(21, 5)),
)

# %%
lesson.end()
