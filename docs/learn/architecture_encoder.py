# %% [markdown]
# # The whole architecture, part two: the encoder
#
# *Transformer* (text 004) takes the vectors of part one through an encoder layer: attention worked by hand, heads,
# the way round each sublayer, layer norm and the feed-forward network. Here every step is done by the real modules
# of glassformer.
#
# After this lesson you can work out attention with pencil and paper, say why scores are scaled and why norms make
# deep stacks trainable, and find the errors in a worked example.
#
# What the text states and what comes out again is folded with the code that holds it. A line with ✗ shows a place
# where the text slips: what it states, and what comes out.

# %%
import json
import math
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from lesson import CONSEQUENCE, Lesson
from rich.console import Console

from glassformer import ModelConfig, Transformer, tracing
from glassformer.errors import ConfigError
from glassformer.explain import resolved_axes
from glassformer.explain.recording.recording import record_pass
from glassformer.model.attention import MultiHeadAttention, softmax
from glassformer.model.layers import ACTIVATIONS, FeedForward
from glassformer.model.masks import Mask
from glassformer.model.norm import LayerNorm
from glassformer.settings import RunConfig
from glassformer.tasks import Task, load_task
from glassformer.text import BOS_ID, EOS_ID, PAD_ID, Tokenizer
from glassformer.training.objective.loss import smoothed_loss
from glassformer.training.reporting.display import PlainDisplay
from glassformer.training.request.arguments import TrainRequest
from glassformer.training.request.data import TaskSource
from glassformer.training.train import train

torch.manual_seed(0)
torch.set_grad_enabled(False)
lesson = Lesson("004", "Transformer")

# %% [markdown]
# The text's letters for the axes are B (sentences), N or n (tokens), D or d_model (width), H (heads) and d_k (width
# of a head). Below each shape is written in these letters, in glassformer's words and in numbers. The sentence is
# the text's own.

# %%
LETTERS = {
    "batch": "B", "src": "N", "query": "N", "key": "N", "position": "N", "d_model": "D", "heads": "H", "d_k": "d_k",
    "d_v": "d_k", "heads_d_k": "H·d_k", "heads_d_v": "H·d_k", "d_ff": "d_ff",
}  # fmt: skip


def show(trace, *patterns):
    """Print the recorded steps whose addresses match, with their axes in both notations and their sizes."""
    for step in (step for pattern in patterns for step in trace.select(pattern)):
        words = resolved_axes(step) if "." in step.address else step.axes
        letters = " × ".join(LETTERS[word] for word in words)
        print(f"{step.address:41} {letters:17} ({', '.join(words)}) = {step.shape}")


tokenizer = Tokenizer.train("words", ["I love cream crackers"], 100)
src_ids, start = torch.tensor([tokenizer.to_ids("I love cream crackers")]), torch.tensor([[BOS_ID]])
vocabulary = {"src_vocab": tokenizer.size, "tgt_vocab": tokenizer.size, "max_length": 64}

# %% [markdown]
# ## Queries, keys and values
#
# Three learned matrices turn each vector of Z into a query (what the token asks), a key (what it is found by) and a
# value (what it tells). The text says that Z is divided into three; each of them is made from the whole of Z. Its
# example is one head with vectors of five numbers.

# %%
one_head = {"d_model": 10, "n_heads": 1, "d_k": 5, "d_ff": 40, "n_encoder_layers": 1, "n_decoder_layers": 1}
model = Transformer(ModelConfig(**one_head, **vocabulary))
trace = record_pass(model, src_ids, start)
at = "encoder.layers.0.self_attention"
show(trace, "src_embedding.with_positions", *(f"{at}.{name}" for name in ("q", "k", "v", "scores", "weights")))
q, k, v = (trace[f"{at}.{name}"][0, 0] for name in "qkv")
lesson.states("Step 3", "Q, K and V have one size", [tuple(q.shape)] * 2, [tuple(k.shape), tuple(v.shape)])
lesson.states("Step 3.1", "the query of one word", (1, 5), tuple(q[:1].shape))

z, w_q = trace["src_embedding.with_positions"][0], model.encoder.layers[0].self_attention.w_q
lesson.states("Step 3", "Q = Z W_Q", z @ w_q.weight.T, q, within=1e-5)
lesson.slips("Step 3", "numbers of a token's Z that its query is made of", "a third of 10",
    f"{int((w_q.weight.abs().sum(0) > 0).sum())} of 10",
    words="we will divide Z into three parts Q, K and V", kind=CONSEQUENCE,
    why="Z is not divided: each of the three is made from the whole of Z, by a matrix of its own.")  # fmt: skip
other = z.flip(0)
lesson.states("Step 3", "from Z to Q is linear", 3 * w_q(z) + 2 * w_q(other), w_q(3 * z + 2 * other), within=1e-5)

# %% [markdown]
# The attention score of token i for token j is the product of the *query* of i with the *key* of j. The text's
# formulas say so; the sentences above them multiply queries with queries.

# %%
products = trace[f"{at}.products"][0, 0]
for row, word in enumerate(("I", "love")):
    formula = torch.stack([q[row] @ key for key in k])
    lesson.states("Step 3.1", f"the row of '{word}' is q·k₁ … q·k₄", formula, products[row], within=1e-5)
words = 'The $q$ of the word "I" is multiplied by the $q$ of every word'
lesson.slips("Step 3.1", "the scores of 'I', by the formula below the sentence", q @ q[0], products[0], within=1e-5,
    words=words, kind=CONSEQUENCE,
    why="A score is a query times a key, as the formula has it; for 'love' the sentence is repeated.")  # fmt: skip

# %% [markdown]
# ## Scaling
#
# The product of two vectors of d random numbers of spread 1 has spread √d. Without the division by √d the softmax of
# long vectors puts nearly all weight on one token, and learns next to nothing from the others.

# %%
print("    d   spread of q·k   of q·k / √d   largest of 8 weights, unscaled   scaled")
spreads = []
for d in (4, 16, 64, 256, 1024):
    queries, keys = torch.randn(2, 4000, 8, d)
    raw = (queries[:, :1] * keys).sum(dim=-1)
    spreads.append(float((raw / math.sqrt(d)).std()))
    largest = [float(scores.softmax(dim=-1).amax(dim=-1).mean()) for scores in (raw, raw / math.sqrt(d))]
    print(f"{d:5} {raw.std():15.2f} {spreads[-1]:13.2f} {largest[0]:32.2f} {largest[1]:8.2f}")
    assert abs(float(raw.std()) / math.sqrt(d) - 1) < 0.05
assert largest[0] > 0.9 > 2 * largest[1]  # nearly all weight on one of eight, and not so
lesson.states("Step 3.2", "spread of the scaled scores for each d", torch.ones(5), torch.tensor(spreads), within=0.05)

# %% [markdown]
# ## Softmax
#
# Softmax makes weights of scores: the exponential of each over the sum of all. The weights of a row are positive and
# sum to 1. That is a probability distribution over the tokens, but not "a normal distribution", which is the bell
# curve: a bell curve with the mean and the spread of such weights would put many of them below zero.

# %%
weights = trace[f"{at}.weights"][0, 0]
lesson.states("Step 3.3", "the weights of each token together", torch.ones(4), weights.sum(dim=-1), within=1e-6)
lesson.states("Step 3.3", "all of them between 0 and 1", True, bool(0 < weights.min() < weights.max() < 1))
some = torch.randn(1000, 8).mul(1.5).softmax(dim=-1)
bell = torch.distributions.Normal(some.mean(), some.std()).cdf(torch.tensor(0.0))
lesson.slips("Step 3.3", "share of weights below zero, were they a normal distribution", round(float(bell), 3),
    float((some < 0).double().mean()), within=0.01, kind=CONSEQUENCE,
    words="a normal distribution, where each attention weight is like a \"probability\"",
    why="They are a probability distribution over tokens; a normal one has negative values too.")  # fmt: skip

# %% [markdown]
# The text's example has the scores 3.2, 0.8 and -5.7 for the query of *love*. Their softmax is far steeper than what
# is printed there. Nor would it help to divide by √5 first. And there are four words to look at.

# %%
example, seen = torch.tensor([[[[3.2, 0.8, -5.7]]]]), Mask.from_visible(torch.ones(1, 1, 1, 3, dtype=torch.bool))
scaled = softmax(example / math.sqrt(5), seen).flatten()
print("divided by √5 first:", ", ".join(f"{weight:.2f}" for weight in scaled.tolist()))
printed, right = torch.tensor([0.71, 0.28, 0.01]), softmax(example, seen).flatten()
lesson.slips("Step 3.3", "softmax of 3.2, 0.8, -5.7", printed, right, within=0.006,
    words="Softmax result = [0.71, 0.28, 0.01].",
    why="exp(3.2) is eleven times exp(0.8): 92 % and 8 %, and next to nothing for the third.")  # fmt: skip
lesson.slips("Step 3.3", "scores of the query of 'love'", example.numel(), products.shape[1],
    words="the Query for \"love\" gives [3.2, 0.8, -5.7]", kind=CONSEQUENCE,
    why="There is one for each of the four words; that of 'crackers' is left out.")  # fmt: skip

# %% [markdown]
# ## Weighted values, by hand
#
# The output is Z = A V: for each token, the sum of all value vectors, each in the part that its weight says. (Two
# steps of the text are numbered 3.3. The weights of the second come from the first.)
#
# The example has four tokens and values of width 2. It goes through the real attention: queries that are the
# logarithms of the wanted weights, times √d_k, meet keys that are unit vectors, so that the softmax gives back just
# those weights.

# %%
a = torch.tensor([[0.7, 0.1, 0.1, 0.1], [0.2, 0.5, 0.2, 0.1], [0.25, 0.25, 0.25, 0.25], [0.4, 0.1, 0.4, 0.1]])
v = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.0, 2.0]])
by_hand = MultiHeadAttention(ModelConfig(d_model=4, n_heads=1, d_k=4, d_v=2), uses_positions=False)
q, k, mask = a.log() * math.sqrt(4), torch.eye(4), Mask.from_visible(torch.ones(1, 1, 4, 4, dtype=torch.bool))
with tracing(by_hand) as trace:
    z = by_hand.attend(q[None, None], k[None, None], v[None, None], mask)[0, 0]
print("\n".join("  ".join(f"{number:.2f}" for number in row) for row in z.tolist()))

# %%
lesson.states("Step 3.3, second", "the weight matrix", a, trace["weights"][0, 0], within=1e-6)
printed = torch.tensor([[0.8, 0.3], [0.4, 0.9], [0.5, 1.0], [0.8, 0.6]])
lesson.slips("Step 3.3, second", "Z", printed, z, within=1e-5,
    words="z_1=0.7[1,0]+0.1[0,1]+0.1[1,1]+0.1[0,2]=[0.8,0.3]",
    why="The second number of z₁ is 0.1 + 0.1 + 0.2 = 0.4, and that of z₄ is 0.1 + 0.4 + 0.2 = 0.7.")  # fmt: skip
lesson.states("Step 3.3, second", "z₂ and z₃", printed[1:3], z[1:3], within=1e-5)

# %% [markdown]
# ## Many heads
#
# Instead of one attention of width d_model, H of them work side by side, each of width d_k = d_model / H and with
# matrices of its own. The text computes d_k = 128 from d_model = 518 and 4 heads. But 518 does not divide by 4, and
# the configuration refuses it; 512 does.

# %%
try:
    ModelConfig(d_model=518, n_heads=4)
except ConfigError as error:
    print(error)
lesson.slips("Multi head attention", "d_k of d_model = 518 and 4 heads", 128, 518 / 4,
    words="$d_{model} = 518$ and number of headers is $h = 4$, then $d_k = d_{model} / h = 128$",
    why="518 is no multiple of 4; 128 is 512 / 4.")  # fmt: skip
lesson.states("Multi head attention", "d_k = d_model / h, with 512", 128, ModelConfig(d_model=512, n_heads=4).d_k)

four = MultiHeadAttention(ModelConfig(d_model=512, n_heads=4), uses_positions=False)
z = torch.randn(1, 4, 512)
with tracing(four) as trace:
    four(z, z, mask)
show(trace, "q_projected", "q_split", "q", "weights", "heads", "heads_merged", "output")
lesson.states("Multi head attention", "Q_i is n × d_k", (4, 128), tuple(trace["q"][0, 0].shape))
lesson.states("Multi head attention", "W_O is d_model × d_model", (512, 512), tuple(four.w_o.weight.shape))

# %% [markdown]
# Each head on its own, with its own 128 columns of the three matrices, gives just what the joint computation has for
# it. Two formulas of the text do not fit the shapes next to them. With a row for each token, as in Q = Z W_Q, a
# head's matrix stands to the right. And H heads are numbered from 1 to H, or from 0 to H - 1, but not from 0 to H.

# %%
w_q, w_k, w_v = ([w.weight.T[:, 128 * i : 128 * (i + 1)] for i in range(4)] for w in (four.w_q, four.w_k, four.w_v))
alone = [(z[0] @ w_q[i] @ (z[0] @ w_k[i]).T / math.sqrt(128)).softmax(dim=-1) @ z[0] @ w_v[i] for i in range(4)]
lesson.states("Multi head attention", "each head alone", torch.stack(alone), trace["heads"][0], within=1e-4)
joined = torch.cat(alone, dim=-1) @ four.w_o.weight.T
lesson.states("Multi head attention", "Concat(heads) W_O", joined, trace["output"][0], within=1e-4)


def product_shape(left, right):
    """The shape of a matrix product, or that there is none."""
    return (left.shape[0], right.shape[1]) if left.shape[1] == right.shape[0] else "no such product"


lesson.slips("Multi head attention", "shape of W_i^Q * Q", (4, 128), product_shape(w_q[0], z[0]),
    words="$W_i^Q * Q = Q_i$", kind=CONSEQUENCE,
    why="W_i^Q is 512 × 128 and Q is 4 × 512, so it is Q W_i^Q; W_i^K and W_i^V likewise.")  # fmt: skip
lesson.states("Multi head attention", "shape of Q W_i^Q", (4, 128), product_shape(z[0], w_q[0]))
lesson.slips("Multi head attention", "width of head_0 … head_H", len(range(4 + 1)) * 128, four.w_o.in_features,
    words="Concat(head_0, head_1, \\ldots, head_H)W^O", kind=CONSEQUENCE,
    why="From 0 to H there would be H + 1 heads, too wide for W_O.")  # fmt: skip

# %% [markdown]
# ## The way round
#
# Each sublayer's output is added to its input: y = f(x) + x. Where f gives nothing, x passes unharmed. Edits of a
# trace can make it so: here both sublayers of the first encoder layer are silenced. (In this model norms come first,
# so that nothing is normed after the sum.)

# %%
tiny = {"d_model": 64, "n_heads": 4, "d_ff": 128, "n_encoder_layers": 2, "n_decoder_layers": 2, "dropout": 0.0}
pre = Transformer(ModelConfig(norm="pre", **tiny, **vocabulary))
silence = {f"encoder.layers.0.{name}.output": torch.zeros_like for name in ("self_attention", "feed_forward")}
with tracing(pre, edits=silence) as trace:
    pre(src_ids, start)
entered, left = trace["src_embedding.with_positions"], trace["encoder.layers.0.output"]
lesson.states("Step 4", "with f(x) = 0 a layer gives x", entered, left)

# %% [markdown]
# ## Layer norm
#
# Layer norm works on the numbers of one token: take away their mean, divide by their spread (a small ε keeps this
# from dividing by zero), then scale by γ and shift by β, both learned. In glassformer these are `gain` and `bias`.

# %%
norm = LayerNorm(ModelConfig())
norm.gain.normal_()
norm.bias.normal_()
x = torch.randn(1, 3, 512) * 4 + 2
with tracing(norm) as trace:
    norm(x)
show(trace, "*")
token = x[0, 0].double()
mean = sum(token) / 512
variance = sum((number - mean) ** 2 for number in token) / 512
normalised = (token - mean) / torch.sqrt(variance + norm.eps)
lesson.states("Step 4", "μ, over 512 dimensions", mean, trace["mean"][0, 0], within=1e-4)
lesson.states("Step 4", "σ², over 512 dimensions", variance, trace["variance"][0, 0], within=1e-3)
lesson.states("Step 4", "x̂ = (x - μ) / √(σ² + ε)", normalised, trace["normalised"][0, 0], within=1e-4)
lesson.states("Step 4", "y = γ x̂ + β", norm.gain * normalised + norm.bias, trace["output"][0, 0], within=1e-4)
lesson.states("Step 4", "numbers in γ and β", (512, 512), (norm.gain.numel(), norm.bias.numel()))
x[0, 1] += 100
lesson.states("Step 4", "a token is normed without its neighbours", trace["output"][0, 0], norm(x)[0, 0])

# %% [markdown]
# In the original Transformer each sublayer ends with it: LayerNorm(x + Sublayer(x)). However deep the stack, its
# values stay in one range: variance 1, until training changes γ.

# %%
lesson.states("Step 4", "the original's order", "post", ModelConfig().norm)
post = Transformer(ModelConfig(norm="post", **tiny, **vocabulary))
trace = record_pass(post, src_ids, start)
layer, at = post.encoder.layers[0], "encoder.layers.0"
x, sublayer = trace["src_embedding.with_positions"], trace[f"{at}.self_attention.output"]
output = layer.self_attention_add_norm.norm(x + sublayer)
lesson.states("Step 4", "LayerNorm(x + Sublayer(x))", output, trace[f"{at}.self_attention_add_norm.norm.output"])
output = layer.feed_forward_add_norm.norm(output + layer.feed_forward(output))
lesson.states("Step 6", "z = LayerNorm(x + FFN(x))", output, trace[f"{at}.output"])
variances = torch.stack([step.value.var(dim=-1, correction=0) for step in trace.select("encoder.layers.?.output")])
lesson.states("Step 4", "values kept in a range: variance", torch.ones(2, 1, 4), variances, within=1e-3)

# %% [markdown]
# ## Post-norm and pre-norm
#
# That order is called post-norm. Most newer models norm *before* the sublayer, x + Sublayer(LayerNorm(x)), and the
# text says so without the reason. Here it is, on the task of reading written dates ("3 mars 2031" -> "2031-03-03").
#
# Left: the length of the gradient that each of twelve decoder layers gets before any training. With post-norm it
# fades from the top layer to the bottom one, to less than a fifth, so that no learning rate suits them all. With
# pre-norm it grows a little on the way. How much it fades hangs on the first weights, too: with queries, keys and
# values √2 times as large, as Xavier has it for each matrix alone, it fades far more.
#
# Right: six layers on each side, trained by `glassformer.training.train` under settings that differ in `model.norm`
# and `train.warmup` alone. With the full learning rate from the first update on, pre-norm learns, and post-norm falls
# behind. It needs the rate to rise slowly, the paper's warm-up.

# %%
dates = [pair for pair in load_task("dates").train if len(pair.src) <= 14]
task = Task("short dates", "", dates[:3000], dates[3000:3010], [], {})
characters = Tokenizer.train("characters", [text for pair in task.train for text in pair], 300)
shape = {"d_model": 48, "n_heads": 4, "d_ff": 96, "dropout": 0.0, "max_length": 64}


def pad(rows):
    """Rows of ids as one tensor, padding to the right."""
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[PAD_ID] * (longest - len(row))] for row in rows])


def gradient_lengths(order, scale=1.0):
    """The length of each decoder layer's gradient at initialisation, twelve layers on each side."""
    torch.manual_seed(0)
    vocab = {"src_vocab": characters.size, "tgt_vocab": characters.size}
    model = Transformer(ModelConfig(norm=order, n_encoder_layers=12, n_decoder_layers=12, **vocab, **shape))
    for name, weight in model.named_parameters():
        if name.endswith(("w_q.weight", "w_k.weight", "w_v.weight")):
            weight.data *= scale
    src, tgt = ([characters.to_ids(pair[side]) for pair in dates[:32]] for side in (0, 1))
    with torch.enable_grad():
        logits = model(pad([[*row, EOS_ID] for row in src]), pad([[BOS_ID, *row] for row in tgt]))
        loss, _, tokens = smoothed_loss(logits, pad([[*row, EOS_ID] for row in tgt]), PAD_ID, 0.0)
        (loss / tokens).backward()
    squares = [[weight.grad.square().sum() for weight in layer.parameters()] for layer in model.decoder.layers]
    return [math.sqrt(sum(layer)) for layer in squares]


def losses(order, warmup):
    """The loss of each of 80 updates, six layers on each side."""
    config = RunConfig.from_mapping({
        "model": {"norm": order, "n_encoder_layers": 6, "n_decoder_layers": 6, **shape},
        "text": {"tokenizer": "characters", "vocab_size": 300},
        "train": {
            "schedule": "inverse_sqrt", "peak_rate": 0.004, "warmup": warmup, "clip_norm": 0.0,
            "label_smoothing": 0.0, "batch_tokens": 160, "bucket": 12, "max_updates": 80, "validate_every": 80,
            "cooldown": 0, "valid_translations": 1, "average_last": 1, "log_every": 1,
        },
    })  # fmt: skip
    with tempfile.TemporaryDirectory() as place, torch.enable_grad():
        train(TrainRequest(Path(place) / "run", TaskSource(task), config), PlainDisplay(Console(quiet=True)))
        lines = (Path(place) / "run" / "metrics.jsonl").read_text().splitlines()
    return [line["loss"] for line in map(json.loads, lines) if "loss" in line]


gradients = {f"{order}-norm": gradient_lengths(order) for order in ("post", "pre")}
gradients["post-norm, √2 as large"] = gradient_lengths("post", math.sqrt(2))
runs = {"post-norm": ("post", 1), "post-norm, warm-up of 80": ("post", 80), "pre-norm": ("pre", 1)}
curves = {name: losses(*settings) for name, settings in runs.items()}

# %%
fig, axes = plt.subplots(1, 2, figsize=(10, 3.5))
for name, values in gradients.items():
    axes[0].semilogy(range(1, 13), values, marker="o", label=name)
axes[0].set(xlabel="decoder layer", ylabel="length of the gradient", title="before training")
for name, values in curves.items():
    axes[1].plot(values, label=name)
axes[1].set(xlabel="update", ylabel="loss per character", title="highest learning rate 0.004", ylim=(1, 5))
for ax in axes:
    ax.legend(fontsize=8)
fig.tight_layout()
plt.show()
plt.close("all")
ratio = {name: values[-1] / values[0] for name, values in gradients.items()}
last = {name: sum(values[-10:]) / 10 for name, values in curves.items()}
print("gradient of the top layer over that of the bottom layer:", {name: round(ratio[name], 2) for name in ratio})
print("mean loss of the last ten updates:", {name: round(last[name], 2) for name in last})
assert ratio["post-norm"] > 5
assert ratio["post-norm, √2 as large"] > 3 * ratio["post-norm"]
assert 0.5 < ratio["pre-norm"] < 1
assert last["pre-norm"] < last["post-norm, warm-up of 80"] < last["post-norm"]

# %% [markdown]
# ## The feed-forward network
#
# Two linear maps with a function between them, at each position alone: widen (usually four times), bend, narrow. The
# text's sizes are 4 -> 16 -> 4. It prints no numbers, so here is one vector on its way through the real module.

# %%
base = ModelConfig()
lesson.states("Step 5", "the usual d_ff over d_model", 4, base.d_ff // base.d_model)
ffn = FeedForward(ModelConfig(d_model=4, n_heads=1, d_ff=4 * 4))
sizes = [tuple(tensor.shape) for tensor in (ffn.w_1.weight, ffn.w_1.bias, ffn.w_2.weight, ffn.w_2.bias)]
lesson.states("Step 5", "W₁, b₁, W₂, b₂", [(16, 4), (16,), (4, 16), (4,)], sizes)
x = torch.tensor([[[1.0, -0.5, 2.0, 0.25]]])
with tracing(ffn) as trace:
    ffn(x)
show(trace, "*")
for name in ("inner", "activated", "output"):
    print(f"{name:9}", " ".join(f"{number:5.2f}" for number in trace[name].flatten().tolist()))
lesson.states("Step 5", "numbers in h₁ and y", [16, 4], [trace[name].shape[-1] for name in ("inner", "output")])
formula = ffn.w_2.weight @ torch.relu(ffn.w_1.weight @ x[0, 0] + ffn.w_1.bias) + ffn.w_2.bias
lesson.states("Step 5", "W₂ σ(W₁ x + b₁) + b₂", formula, trace["output"][0, 0], within=1e-6)
five = torch.randn(1, 5, 4)
apart = torch.stack([ffn(five[:, place : place + 1])[0, 0] for place in range(5)])
lesson.states("Step 5", "one token at a time, or all in parallel", apart, ffn(five)[0], within=1e-6)

# %% [markdown]
# Without the function, two linear maps would be a single one, however wide the space between them. The configuration
# offers three functions: ReLU and GELU, which the text names, and swish.

# %%
ffn.activation = torch.nn.Identity()
single, offset = ffn.w_2.weight @ ffn.w_1.weight, ffn.w_2.weight @ ffn.w_1.bias + ffn.w_2.bias
lesson.states("Step 5", "no activation: one linear layer", five @ single.T + offset, ffn(five), within=1e-6)

fig, ax = plt.subplots(figsize=(5, 2.6))
line = torch.linspace(-4, 3, 200)
for name, activation in ACTIVATIONS.items():
    ax.plot(line, activation.function(line), label=name)
ax.set(xlabel="number that goes in", ylabel="number that comes out")
ax.legend()
plt.show()
plt.close("all")

# %% [markdown]
# The text adds that attention itself is linear and leaves all bending to this network. It is not: twice the input of
# a linear map gives twice the output, and attention gives something else, for its weights change as well. It is
# linear in its values alone, once the weights stand.

# %%
doubled, twice = four(2 * z, 2 * z, mask), 2 * four(z, z, mask)
off = float((doubled - twice).norm() / twice.norm())
lesson.slips("Step 5", "attention is linear: f(2x) and 2 f(x) differ by", 0.0, round(off, 3), within=0.01,
    words="The attention layer itself is linear (dot product + Softmax)", kind=CONSEQUENCE,
    why="The scores are products of two projections of x, and softmax is not linear.")  # fmt: skip
with tracing(four) as trace:
    four(z, z, mask)
fixed = four.attend(trace["q"], trace["k"], 2 * trace["v"], mask)
print("twice the values, the same weights: twice the heads?", torch.allclose(fixed, 2 * trace["heads"], atol=1e-4))
assert torch.allclose(fixed, 2 * trace["heads"], atol=1e-4)

# %% [markdown]
# All these matrices are learned: errors are sent back, and an optimiser such as Adam moves every weight a little.

# %%
model = Transformer(ModelConfig(**tiny, **vocabulary))
names = ("self_attention.w_q", "self_attention.w_k", "self_attention.w_v", "feed_forward.w_1", "feed_forward.w_2")
weights = [model.get_parameter(f"encoder.layers.0.{name}.weight") for name in names]
before = [weight.clone() for weight in weights]
with torch.enable_grad():
    smoothed_loss(model(src_ids, start), src_ids[:, :1], PAD_ID, 0.0)[0].backward()
torch.optim.Adam(model.parameters(), lr=0.001).step()
moved = [not torch.equal(weight, old) for weight, old in zip(weights, before, strict=True)]
lesson.states("Steps 3 and 5", "W_Q, W_K, W_V, W₁ and W₂ learn", [True] * 5, moved)

# %% [markdown]
# ## The encoder's output
#
# A layer's output enters the next layer. The last one is called the memory in glassformer: one vector for each
# source token, as many and as wide as those that came in. The decoder makes its keys and values of it.

# %%
trace = record_pass(post, src_ids, start)
show(trace, "src_embedding.with_positions", "encoder.layers.?.output", "encoder.memory")
where, entered, memory = "Encoder Final output", trace["src_embedding.with_positions"], trace["encoder.memory"]
lesson.states(where, "as large as the input", tuple(entered.shape), tuple(memory.shape))
q = post.encoder.layers[1].self_attention.w_q(trace["encoder.layers.0.output"])
lesson.states(where, "a block reads the one before", q, trace["encoder.layers.1.self_attention.q_projected"])
cross = post.decoder.layers[1].cross_attention
made, used = (cross.w_k(memory), cross.w_v(memory)), "decoder.layers.1.cross_attention"
lesson.states(where, "K of the cross-attention comes from it", made[0], trace[f"{used}.k_projected"])
lesson.states(where, "V of the cross-attention comes from it", made[1], trace[f"{used}.v_projected"])

# %% [markdown]
# **See it live:** [the living page](../../page.md) has each of these steps for a sentence of yours. `glassformer
# explore "I love you, too." --open`; behind its address, `#encoder.layers.0.self_attention.products` leads to q·k.
#
# ## Exercises

# %% tags=["exercises"]
lesson.exercise(
    "Scores 2, 0 and 0: what are the weights, to two digits?",
    [0.79, 0.11, 0.11],
    [round(weight, 2) for weight in torch.tensor([2.0, 0.0, 0.0]).softmax(0).tolist()],
)
lesson.exercise(
    "The weights 0.5, 0.3, 0.2 and the values (1, 0), (0, 1), (2, 2): what is z?",
    torch.tensor([0.9, 0.7]),
    torch.tensor([0.5, 0.3, 0.2]) @ torch.tensor([[1.0, 0.0], [0.0, 1.0], [2.0, 2.0]]),
    within=1e-6,
)
four_numbers = torch.tensor([1.0, 3.0, 5.0, 7.0])
lesson.exercise(
    "Layer norm of 1, 3, 5, 7 with gain 1, bias 0 and no ε, to two digits?",
    [-1.34, -0.45, 0.45, 1.34],
    [round(number, 2) for number in ((four_numbers - 4) / four_numbers.std(correction=0)).tolist()],
)

# %%
lesson.end()
