# %% [markdown]
# # Build it yourself
#
# From an empty file to a Transformer that learns to read dates ("7 March 2023" becomes "2023-03-07"), in 200 lines.
# All that is needed is PyTorch. After each step there is a check that is not part of the file: it holds what you have
# written equal to the package, number by number.
#
# After this lesson you can write every part of *Attention Is All You Need* from memory: masks, positions, attention,
# layers, loss, schedule, Adam and greedy search.
#
# Open an empty file and type along.
#
# ## Step 1: dates, ids, batches
#
# The source is a date as people write it, character by character, the target the same as computers write it. Three
# ids are special: padding, the start and the end. Every tenth day is kept for the test.

# %%
import math
import random
from datetime import date, timedelta

import torch
from torch import nn

PAD, BOS, EOS = 0, 1, 2
MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
SYMBOLS = sorted(set("".join(MONTHS) + "0123456789 ,-"))


def new_pair(dice, *, held_out=False):
    """A date as people write it, and as computers do."""
    day = date(1950, 1, 1) + timedelta(days=dice.randrange(36_525))
    if (day.toordinal() % 10 == 0) != held_out:
        return new_pair(dice, held_out=held_out)
    month = MONTHS[day.month - 1]
    forms = (f"{day.day} {month} {day.year}", f"{month} {day.day}, {day.year}", f"{day.year}, {month} {day.day}")
    return dice.choice(forms), day.isoformat()


def to_ids(text):
    return [SYMBOLS.index(symbol) + 4 for symbol in text]


def to_text(ids):
    return "".join(SYMBOLS[number - 4] for number in ids if number >= 4)


def pad(rows):
    """Rows of ids as one tensor (batch position)."""
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows])


def batch_of(pairs):
    """src, what the decoder reads, and what it is to write: the same, one place on."""
    src = pad([[*to_ids(source), EOS] for source, _ in pairs])
    tgt_in = pad([[BOS, *to_ids(target)] for _, target in pairs])
    tgt_out = pad([[*to_ids(target), EOS] for _, target in pairs])
    return src, tgt_in, tgt_out


dice = random.Random(0)
pairs = [new_pair(dice) for _ in range(3)]
for source, target in pairs:
    print(f"{source:20} {target}")
src, tgt_in, tgt_out = batch_of(pairs)
print(src)

# %% tags=["check"]
from lesson import Lesson

from glassformer.decoding.search.steps import pad_ids

lesson = Lesson("paper 3 to 5", "Attention Is All You Need, built from an empty file")
rows = [[*to_ids(source), EOS] for source, _ in pairs]
lesson.states("step 1", "the package's padded batch", pad_ids(rows, PAD, torch.device("cpu")), src)
assert all(to_text(to_ids(text)) == text for pair in pairs for text in pair)

# %% [markdown]
# ## Step 2: positions and masks
#
# Attention sees no order, so each position has a vector of sines and cosines, which is added (section 3.5). Two masks
# say who may look at whom, `True` = may: padding is hidden from all, the future from the target (section 3.2.3).


# %%
def positions(length, d_model):
    """Row pos: sine and cosine of pos / 10000^(2i / d_model), in pairs."""
    frequencies = 10_000.0 ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    angles = torch.arange(length, dtype=torch.float64)[:, None] * frequencies
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1).float()


def padding_mask(ids):
    """(batch 1 1 key): True where there is a token."""
    return (ids != PAD)[:, None, None, :]


def causal_mask(length):
    """(query key): True at and below the diagonal."""
    return torch.ones(length, length, dtype=torch.bool).tril()


print(causal_mask(4).int())

# %% tags=["check"]
from glassformer import ModelConfig
from glassformer.model import masks
from glassformer.model.positions import SinusoidalPositions

table = SinusoidalPositions(ModelConfig.base()).table[:60]
lesson.states("step 2", "positions", table, positions(60, 512), within=1e-6)
lesson.states("step 2", "padding mask", masks.padding_mask(src, PAD), padding_mask(src))
lesson.states("step 2", "causal mask", masks.causal_mask(9, 9, src.device)[0, 0], causal_mask(9))

# %% [markdown]
# ## Step 3: attention
#
# Equation 1: softmax(Q Kᵀ / √d_k) V. Queries, keys and values are made by three matrices and cut into heads; what the
# heads gather is laid side by side and mixed by a fourth (section 3.2.2).


# %%
class Attention(nn.Module):
    def __init__(self, d_model, heads):
        super().__init__()
        self.heads = heads
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model, bias=False) for _ in range(4))

    def forward(self, query, memory, mask):
        q, k, v = self.split(self.w_q(query)), self.split(self.w_k(memory)), self.split(self.w_v(memory))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        weights = scores.masked_fill(~mask, -math.inf).softmax(dim=-1)
        return self.w_o((weights @ v).transpose(1, 2).flatten(2))

    def split(self, x):
        """(batch position d_model) to (batch heads position d_k)."""
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


# %% tags=["check"]
from glassformer.model.attention import MultiHeadAttention
from glassformer.model.masks import Mask

SIZES = {"d_model": 64, "n_heads": 4, "d_ff": 128, "n_encoder_layers": 2, "n_decoder_layers": 2, "dropout": 0.0}
config = ModelConfig(src_vocab=len(SYMBOLS) + 4, tgt_vocab=len(SYMBOLS) + 4, max_length=64, **SIZES)


@torch.no_grad()
def same(where, claim, theirs, mine, *inputs, masks):
    """Our module, given the weights of the package's, gives what it gives."""
    mine.load_state_dict(theirs.state_dict())
    expected = theirs(*inputs, *map(Mask.from_visible, masks))
    lesson.states(where, claim, expected, mine(*inputs, *masks), within=1e-5)


torch.manual_seed(0)
x, memory = torch.randn(3, 7, 64), torch.randn(*src.shape, 64)
theirs = MultiHeadAttention(config, uses_positions=False)
same("step 3", "attention", theirs, Attention(64, 4), x, memory, masks=[padding_mask(src)])
same("step 3", "self-attention of a target", theirs, Attention(64, 4), x, x, masks=[causal_mask(7)[None, None]])

# %% [markdown]
# ## Step 4: feed-forward, and the way round
#
# Equation 2 widens each vector, sets negative numbers to 0, and narrows it again. Round each sublayer goes the
# residual connection, and the sum is normed (section 3.1).


# %%
class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.w_1, self.w_2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.w_2(torch.relu(self.w_1(x)))


class LayerNorm(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.gain, self.bias = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        centred = x - x.mean(dim=-1, keepdim=True)
        return self.gain * centred / (centred.square().mean(dim=-1, keepdim=True) + 1e-5).sqrt() + self.bias


class AddAndNorm(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.norm = LayerNorm(d_model)

    def forward(self, x, sublayer):
        return self.norm(x + sublayer)


# %% tags=["check"]
from glassformer.model import layers, norm

same("step 4", "feed-forward", layers.FeedForward(config), FeedForward(64, 128), x, masks=[])
same("step 4", "layer norm", norm.LayerNorm(config), LayerNorm(64), x, masks=[])
lesson.states("step 4", "add & norm", norm.AddAndNorm(config).after(x, 2 * x), AddAndNorm(64)(x, 2 * x), within=1e-5)

# %% [markdown]
# ## Step 5: layers
#
# Figure 1: an encoder layer has two sublayers, a decoder layer three. The one in the middle looks at the source.


# %%
class EncoderLayer(nn.Module):
    def __init__(self, d_model, heads, d_ff):
        super().__init__()
        self.self_attention, self.feed_forward = Attention(d_model, heads), FeedForward(d_model, d_ff)
        self.self_attention_add_norm, self.feed_forward_add_norm = AddAndNorm(d_model), AddAndNorm(d_model)

    def forward(self, x, src_mask):
        x = self.self_attention_add_norm(x, self.self_attention(x, x, src_mask))
        return self.feed_forward_add_norm(x, self.feed_forward(x))


class DecoderLayer(EncoderLayer):
    def __init__(self, d_model, heads, d_ff):
        super().__init__(d_model, heads, d_ff)
        self.cross_attention, self.cross_attention_add_norm = Attention(d_model, heads), AddAndNorm(d_model)

    def forward(self, x, memory, mask, src_mask):
        x = self.self_attention_add_norm(x, self.self_attention(x, x, mask))
        x = self.cross_attention_add_norm(x, self.cross_attention(x, memory, src_mask))
        return self.feed_forward_add_norm(x, self.feed_forward(x))


# %% tags=["check"]
look_ahead = causal_mask(7)[None, None]
same(
    "step 5",
    "encoder layer",
    layers.EncoderLayer(config),
    EncoderLayer(64, 4, 128),
    memory,
    masks=[padding_mask(src)],
)
same(
    "step 5", "decoder layer", layers.DecoderLayer(config), DecoderLayer(64, 4, 128), x, memory,
    masks=[look_ahead, padding_mask(src)],
)  # fmt: skip

# %% [markdown]
# ## Step 6: the whole model
#
# One matrix embeds source and target, times √d_model, and makes the logits at the end (section 3.4).


# %%
class Transformer(nn.Module):
    def __init__(self, vocab, d_model=64, heads=4, d_ff=128, n_layers=2):
        super().__init__()
        self.d_model, self.embedding = d_model, nn.Embedding(vocab, d_model)
        self.encoder = nn.ModuleList(EncoderLayer(d_model, heads, d_ff) for _ in range(n_layers))
        self.decoder = nn.ModuleList(DecoderLayer(d_model, heads, d_ff) for _ in range(n_layers))
        for weight in self.parameters():
            if weight.ndim == 2:
                nn.init.xavier_uniform_(weight)
        nn.init.normal_(self.embedding.weight, std=d_model**-0.5)

    def forward(self, src, tgt_in):
        return self.decode(tgt_in, *self.encode(src))

    def embed(self, ids):
        return self.embedding(ids) * math.sqrt(self.d_model) + positions(ids.shape[1], self.d_model)

    def encode(self, src):
        x, src_mask = self.embed(src), padding_mask(src)
        for layer in self.encoder:
            x = layer(x, src_mask)
        return x, src_mask

    def decode(self, tgt_in, memory, src_mask):
        x, mask = self.embed(tgt_in), causal_mask(tgt_in.shape[1])
        for layer in self.decoder:
            x = layer(x, memory, mask, src_mask)
        return x @ self.embedding.weight.T


torch.manual_seed(0)
model = Transformer(vocab=len(SYMBOLS) + 4)
print(
    f"{sum(weight.numel() for weight in model.parameters()):,} parameters, logits {tuple(model(src, tgt_in).shape)}"
)

# %% tags=["check"]
import glassformer


def to_package(mine):
    """The package's model with our weights."""
    theirs = glassformer.Transformer(config).eval()
    weights = {
        name.replace("encoder.", "encoder.layers.").replace("decoder.", "decoder.layers."): weight
        for name, weight in mine.state_dict().items()
        if name != "embedding.weight"
    }
    for place in ("src_embedding.tokens", "tgt_embedding.tokens", "output_projection.linear"):
        weights[f"{place}.weight"] = mine.embedding.weight
    theirs.load_state_dict(weights)
    return theirs


theirs = to_package(model)
with torch.no_grad():
    lesson.states("step 6", "logits of the whole model", theirs(src, tgt_in), model(src, tgt_in), within=1e-4)
counts = [sum(weight.numel() for weight in one.parameters()) for one in (theirs, model)]
lesson.states("step 6", "parameters", *counts)

# %% [markdown]
# ## Step 7: the loss
#
# Cross-entropy with label smoothing: 0.9 for the right token, and 0.1 spread over all (section 5.4). Padding counts
# not.


# %%
def loss_of(logits, tgt_out, smoothing=0.1):
    """The mean over the tokens to write."""
    log_p = logits.log_softmax(dim=-1)
    right = log_p.gather(-1, tgt_out[..., None]).squeeze(-1)
    real = tgt_out != PAD
    return -((1 - smoothing) * right + smoothing * log_p.mean(dim=-1))[real].mean()


print(f"untrained {loss_of(model(src, tgt_in), tgt_out, 0.0):.2f}; knowing nothing, ln {len(SYMBOLS) + 4} = "
      f"{math.log(len(SYMBOLS) + 4):.2f}")  # fmt: skip

# %% tags=["check"]
from glassformer.training.objective.loss import smoothed_loss

logits = model(src, tgt_in).detach()
for smoothing in (0.0, 0.1):
    total, _, tokens = smoothed_loss(logits, tgt_out, PAD, smoothing)
    mine = loss_of(logits, tgt_out, smoothing)
    lesson.states("step 7", f"loss with ε = {smoothing}", total / tokens, mine, within=1e-5)

# %% [markdown]
# ## Step 8: Adam and its rate
#
# The rate climbs, then falls (equation 3). Adam keeps a mean of the gradient and one of its square for each weight,
# both corrected for their start at zero (section 5.3).


# %%
def rate_of(update, d_model=64, warmup=400):
    return d_model**-0.5 * min(update**-0.5, update * warmup**-1.5)


class Adam:
    def __init__(self, weights, beta1=0.9, beta2=0.98, eps=1e-9):
        self.weights, self.beta1, self.beta2, self.eps, self.update = list(weights), beta1, beta2, eps, 0
        self.means = [(torch.zeros_like(weight), torch.zeros_like(weight)) for weight in self.weights]

    @torch.no_grad()
    def step(self, rate):
        self.update += 1
        for weight, (m, v) in zip(self.weights, self.means, strict=True):
            m.mul_(self.beta1).add_((1 - self.beta1) * weight.grad)
            v.mul_(self.beta2).add_((1 - self.beta2) * weight.grad**2)
            m_hat, v_hat = m / (1 - self.beta1**self.update), v / (1 - self.beta2**self.update)
            weight -= rate * m_hat / (v_hat.sqrt() + self.eps)
            weight.grad = None


# %% tags=["check"]
from copy import deepcopy

from glassformer import TrainConfig
from glassformer.training.loop.optimizer import adam_step, new_optimizer
from glassformer.training.loop.schedule import learning_rate

settings = TrainConfig(schedule="noam", warmup=400)
stated = [learning_rate(update, settings, 64) for update in (1, 399, 400, 401, 5_000)]
lesson.states("step 8", "rates", stated, [rate_of(update) for update in (1, 399, 400, 401, 5_000)], within=1e-12)
mine, theirs = deepcopy(model), deepcopy(model)
adam, package_adam = Adam(mine.parameters()), new_optimizer(theirs, settings)
for update in (1, 2, 3):
    for one in (mine, theirs):
        loss_of(one(src, tgt_in), tgt_out).backward()
    adam.step(rate_of(update))
    adam_step(theirs, package_adam, rate_of(update))
lesson.states("step 8", "a matrix after three updates", theirs.encoder[0].feed_forward.w_1.weight.detach(),
              mine.encoder[0].feed_forward.w_1.weight.detach(), within=1e-5)  # fmt: skip

# %% [markdown]
# ## Step 9: learn
#
# New dates for every update, so that nothing is seen twice but by chance. The loss cannot fall to zero: with
# smoothing the least is the entropy of the smoothed answer.

# %%
adam, losses = Adam(model.parameters()), []
for update in range(1, 801):
    src, tgt_in, tgt_out = batch_of([new_pair(dice) for _ in range(64)])
    loss = loss_of(model(src, tgt_in), tgt_out)
    loss.backward()
    adam.step(rate_of(update))
    losses.append(loss.item())
    if update % 100 == 0:
        print(f"update {update}: loss {sum(losses[-20:]) / 20:.3f}")

# %% [markdown]
# ## Step 10: write
#
# Encode once. Then write one token after the other, each time the likeliest, until the end.


# %%
@torch.no_grad()
def translate(text):
    memory, src_mask = model.encode(torch.tensor([[*to_ids(text), EOS]]))
    ids = [BOS]
    while ids[-1] != EOS and len(ids) < 20:
        ids.append(int(model.decode(torch.tensor([ids]), memory, src_mask)[0, -1].argmax()))
    return to_text(ids)


test = [new_pair(random.Random(seed), held_out=True) for seed in range(200)]
written = [translate(source) for source, _ in test]
for (source, target), found in list(zip(test, written, strict=True))[:5]:
    print(f"{source:20} {found:12} {'right' if found == target else target}")
right = sum(found == target for (_, target), found in zip(test, written, strict=True))
print(f"{right} of {len(test)} dates that it has never seen are right")

# %% tags=["check"]
from glassformer import DecodeConfig
from glassformer.decoding import DecoderSteps, SearchJob
from glassformer.decoding.search.search import search

options = DecodeConfig(beam=1)
sources = [[*to_ids(source), EOS] for source, _ in test]
with torch.no_grad():
    steps = DecoderSteps(to_package(model), pad(sources), options)
    found = search(steps, SearchJob(sources, [20] * len(sources), options))
lesson.states(
    "step 10", "the package's greedy search, with our weights", [to_text(one[0].ids) for one in found], written
)
entropy = -0.9 * math.log(0.9) - 0.1 * math.log(0.1 / (len(SYMBOLS) + 4))
assert right > 0.9 * len(test), f"{right} of {len(test)}"
assert losses[0] > 3 * losses[-1]

# %% [markdown]
# ## What you have
#
# All of the paper's model, loss, optimizer and schedule, but for dropout, beam search and averaging. What the package
# adds is speed (no computation on padding, keys and values kept while writing), names for every tensor, choices, and
# care for files and errors. To see the page of a model, train one with `glassformer train --task dates --run
# runs/dates`, then **see it live**: `glassformer explore "7 March 2023" --run runs/dates --open` opens [the living
# page](../../page.md).
#
# ## Exercises

# %% tags=["exercises"]
with torch.no_grad():
    order = torch.randperm(7)
    moved = Attention(64, 4)
    shuffled = moved(x[:, order], x[:, order], torch.ones(1, 1, 1, 7, dtype=torch.bool))
    straight = moved(x, x, torch.ones(1, 1, 1, 7, dtype=torch.bool))[:, order]
lesson.exercise(
    "Without positions and masks, is the attention of a shuffled sentence the shuffled attention of the sentence?",
    True,
    torch.allclose(shuffled, straight, atol=1e-5),
)
lesson.exercise(
    "How many parameters would our model have with a matrix of its own for each of the three places?",
    174_144,
    sum(weight.numel() for weight in model.parameters()) + 2 * model.embedding.weight.numel(),
)
lesson.exercise(
    "At which update is the rate highest, and what is it?", (400, 0.00625), (
        max(range(1, 1_000), key=rate_of), round(rate_of(400), 6)
    ),
)  # fmt: skip

# %% tags=["check"]
lesson.end()
