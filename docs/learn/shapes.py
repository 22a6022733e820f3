# %% [markdown]
# # Shapes, end to end
#
# *Shaped Transformer* (text 000) follows three English sentences through the Transformer and writes the shape of
# the tensor next to every step, from 0 (text becomes ids) to 5-2 (probabilities of the next token). Here the same
# three sentences go through a real glassformer model with the paper's sizes. Each step is shown with the
# text's symbols, our own words for the axes, the sizes that come out, and some of the numbers inside.
#
# After this lesson you can write the shape of every tensor between a sentence and the next token, say which steps mix
# tokens and which do not, and show what a missing mask does.
#
# What the text states and what comes out again is folded with the code that holds it. A line with ✗ shows a place
# where the text slips: what it states, then what comes out.

# %%
import itertools
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import fields

import bpe_openai
import matplotlib.pyplot as plt
import torch
from lesson import CONSEQUENCE, Lesson
from rich.console import Console
from torch import Tensor

from glassformer import DecodeConfig, ModelConfig, Transformer, Translator, tracing
from glassformer.axes import LEGEND
from glassformer.decoding.search.filters import keep_top_k, keep_top_p
from glassformer.decoding.search.steps import pad_ids, token_log_probs
from glassformer.explain import print_walk, resolved_axes, story_of, walk
from glassformer.model.masks import Mask, causal_mask, padding_mask
from glassformer.text import BOS_ID, EOS_ID, PAD_ID, Batch, Tokenizer
from glassformer.trace.palette import share_colours, signed_colours
from glassformer.training.objective.loss import smoothed_loss

torch.manual_seed(0)
torch.set_printoptions(precision=2, sci_mode=False, linewidth=110)
lesson = Lesson("000", "Shaped Transformer")
ROUNDING = 0.0051  # of numbers printed with two decimals


def round_numbers(numbers: Tensor) -> list[float]:
    """Numbers as the text prints them, with two decimals."""
    return [round(number, 2) for number in numbers.tolist()]


def fails(attempt: Callable[[], object]) -> bool:
    """Whether torch refuses the attempt."""
    try:
        attempt()
    except RuntimeError:
        return True
    return False


# %% [markdown]
# ## The three sentences, and the names of the axes
#
# A model does not read words. A *tokenizer* cuts each sentence into tokens and gives each token its number, the *id*.
# The text takes the ids from the tokenizer of GPT-4o. `bpe_openai` has its 200,000 entries, so they can be computed.
# A token's string contains the space before it.

# %%
GPT4O = bpe_openai.get_encoding("o200k_base")
SENTENCES = ["I love you", "I am in love with you", "I love you, too"]
rows = [GPT4O.encode(sentence) for sentence in SENTENCES]
STRINGS = {number: GPT4O.decode([number]) for number in {0}.union(*rows)}
for sentence, ids in zip(SENTENCES, rows, strict=True):
    print(f"{sentence:22} {[STRINGS[number] for number in ids]} {ids}")

# %% [markdown]
# How does byte-pair encoding come to such a token? It cuts the text into words, each with the space before it, begins
# with single letters, and joins the two neighbours whose joint entry has the lowest number, until no neighbours make
# an entry. In these tables an entry's number is its rank, so that the walk needs nothing but the ids:


# %%
def rank(string: str) -> float:
    """The id of a string that is one entry, infinity for one that is none."""
    ids = GPT4O.encode(string)
    return ids[0] if len(ids) == 1 else math.inf


def merges(word: str) -> list[list[str]]:
    """The pieces of a word before each merge, and at the end."""
    pieces = [list(word)]
    while len(last := pieces[-1]) > 1:
        ranks = [rank(left + right) for left, right in itertools.pairwise(last)]
        if min(ranks) == math.inf:
            break
        best = ranks.index(min(ranks))
        pieces.append([*last[:best], last[best] + last[best + 1], *last[best + 2 :]])
    return pieces


for word in ("I", " love", " you"):
    print(" → ".join("|".join(pieces).replace(" ", "▁") for pieces in merges(word)), "=", rank(merges(word)[-1][0]))
assert [rank(merges(word)[-1][0]) for word in ("I", " love", " you")] == rows[0]
assert all(merges(STRINGS[number])[-1] == [STRINGS[number]] for number in STRINGS)

# %% [markdown]
# The sentences are put into one batch. A tensor has straight edges, so the shorter sentences are filled up with
# *padding*. The text uses the id 0 for it, and so does glassformer.

# %%
src_ids = pad_ids(rows, PAD_ID, torch.device("cpu"))
print(src_ids)

WHERE = "Commonly used parameters"
lesson.states(f"{WHERE}: n_seq", "tokens of the three sentences", [3, 6, 5], [len(ids) for ids in rows])
lesson.states(f"{WHERE}: nbatches", "sentences in the batch", 3, src_ids.shape[0])
lesson.states(f"{WHERE}: n_seq", "positions of the batch, padding included", 6, src_ids.shape[1])

# %% [markdown]
# The decoder needs something to write. The text leaves the target sentences open; we take German ones of 3, 6 and 4
# words, cut by our own tokenizer `words`. The decoder reads `<s>` and the words; it is to say the words and `</s>`.
# So `n_seq_tgt` is 7 and cannot be mistaken for `n_seq_src`, which is 6.
#
# The model is the paper's *base*, untrained: N = 6 layers, `d_model` = 512, h = 8 heads, `d_ff` = 2048. It has fewer
# entries in its vocabularies: up to the largest id that occurs. One recorded pass, a *trace*, gives us every tensor
# on the way.

# %%
GERMAN = ["Ich liebe dich", "Ich habe mich in dich verliebt", "Ich liebe dich auch"]
german = Tokenizer.train("words", [*GERMAN, "euch Sie"], 40)
written = [german.to_ids(sentence) for sentence in GERMAN]
batch = Batch(
    src_ids=src_ids,
    tgt_in_ids=pad_ids([[BOS_ID, *ids] for ids in written], PAD_ID, torch.device("cpu")),
    tgt_out_ids=pad_ids([[*ids, EOS_ID] for ids in written], PAD_ID, torch.device("cpu")),
)

config = ModelConfig(src_vocab=max(STRINGS) + 1, tgt_vocab=german.size, tie_embeddings="target")
model = Transformer(config).eval()
print(f"{sum(weight.numel() for weight in model.parameters()):,} parameters, d_k = {config.d_k}, d_v = {config.d_v}")

# %% [markdown]
# The text shows a small piece of an embedding table: the first eight of 512 numbers for each token. We write these
# numbers into our model, so that its trace can be compared with the text. The rest of each vector stays random.

# %%
TEXT_ROWS = {
    0: [0.00, 0.00, 0.00, 0.00, 0.00, 0.00, 0.00, 0.00],
    40: [0.12, -0.07, 0.91, -0.04, 0.26, 0.03, -0.18, 0.55],
    3047: [0.33, 0.25, -0.48, 0.18, -0.09, 0.41, 0.07, -0.22],
    481: [-0.55, 0.19, 0.07, 0.92, -0.14, 0.08, 0.36, -0.02],
    939: [0.41, 0.05, 0.36, -0.33, 0.22, -0.17, 0.10, 0.04],
    306: [0.29, -0.15, -0.04, 0.22, -0.11, 0.09, -0.27, 0.30],
    483: [-0.21, 0.56, 0.02, 0.44, 0.05, -0.08, 0.12, -0.19],
    11: [0.77, -0.10, -0.13, -0.26, 0.15, 0.06, -0.05, 0.02],
    3101: [0.04, 0.88, -0.29, 0.13, -0.06, 0.21, -0.12, 0.44],
}
torch.set_grad_enabled(False)
for number, numbers in TEXT_ROWS.items():
    model.src_embedding.tokens.weight[number, : len(numbers)] = torch.tensor(numbers)

with tracing(model) as trace:
    logits = model(batch.src_ids, batch.tgt_in_ids)

SIZES = {
    "nbatches": len(SENTENCES), "n_seq_src": batch.src_ids.shape[1], "n_seq_tgt": batch.tgt_in_ids.shape[1],
    "d_model": config.d_model, "h": config.n_heads, "d_k": config.d_k, "d_v": config.d_v, "d_ff": config.d_ff,
    "vocab": german.size,
}  # fmt: skip
print(len(trace), "tensors recorded")
print("text         here        size  what it counts")
for axis in LEGEND.values():
    if axis.symbol in SIZES:
        word = next(word for word, entry in LEGEND.items() if entry is axis)
        print(f"{axis.symbol:12} {word:10} {SIZES[axis.symbol]:5}  {axis.meaning}")


# %% [markdown]
# The sizes that the text quotes from the paper are the defaults of our `ModelConfig`.

# %%
lesson.states(f"{WHERE}: d_model", "d_model in the paper", 512, ModelConfig().d_model)
lesson.states(f"{WHERE}: h", "heads in the paper", 8, ModelConfig().n_heads)
lesson.states(f"{WHERE}: d_k", "d_model // h in the paper", 64, ModelConfig().d_k)
lesson.states(f"{WHERE}: d_v", "d_v in the paper, the same as d_k", 64, ModelConfig().d_v)
lesson.states("2", "N, layers of the encoder in the paper", 6, len(model.encoder.layers))
lesson.states("4", "N, layers of the decoder in the paper", 6, len(model.decoder.layers))

named_n = [knob.name for knob in fields(ModelConfig) if knob.metadata["symbol"] == "N"]
lesson.slips(
    f"{WHERE}: nbatches",
    "what the paper calls N",
    ["nbatches"],
    named_n,
    words="The Paper use the expression $N$ but in code, it is expressed as `nbatches`.",
    why="In the paper N is the number of layers and nothing else; the text says so itself in step 2.",
)

# %% [markdown] tags=["more"]
# ### One length for all?
#
# The text fixes the length by the longest sentence. That is so for one batch: its rows must
# be equally long. It does not bind the next batch, for no weight of the model depends on `n_seq`; there is just an
# upper limit, the length of the table of positions. Here the model reads each sentence alone, without padding, and
# comes to the same memory (the encoder's result) as in the batch.

# %% tags=["more"]
alone = [model.encode(torch.tensor([ids]))[0] for ids in rows]
for memory, whole in zip(alone, trace["encoder.memory"], strict=True):
    n_seq = memory.shape[1]
    print(n_seq, "tokens alone, largest difference from the batch:", f"{(memory[0] - whole[:n_seq]).abs().max():.0e}")
    assert (memory[0] - whole[:n_seq]).abs().max() < 1e-4

# %% [markdown] tags=["more"]
# ### Vocabulary and embedding
#
# Each token has one id, and each id one token. An id is a row number in the table
# `W_emb`, which has a row of `d_model` numbers for each entry of the vocabulary.

# %% tags=["more"]
own_ids = list(range(4, german.size))  # behind the control tokens
there_and_back = [german.to_ids(token)[0] for token in german.to_tokens(own_ids)]
lesson.states(f"{WHERE}: vocab", "tokens and ids belong one to one", own_ids, there_and_back)
row_of_love = model.src_embedding.tokens.weight[3047, :4]
lesson.states(
    f"{WHERE}: vocab", "embedding selects W_emb[id]", row_of_love, trace["src_embedding.embedded"][0, 1, :4]
)
lesson.states(
    f"{WHERE}: vocab",
    "shape of W_emb, (vocab, d_model)",
    (max(map(max, rows)) + 1, SIZES["d_model"]),
    tuple(model.src_embedding.tokens.weight.shape),
)

# %% [markdown]
# **d_k and d_v.** A query and a key are multiplied number by number, so they must be equally wide. A value may have a
# width of its own. The text then says why `d_k = d_model // h` is a good choice: the heads, laid side by side (the
# *concatenation*), are as wide as `d_model` again and can be added to the residual stream as they are. We change
# each width alone and look whether the concatenation changes.

# %%
q, k = (trace[f"encoder.layers.0.self_attention.{name}"] for name in "qk")
lesson.states(f"{WHERE}: d_k", "queries narrower than keys: refused", True, fails(lambda: q[..., :32] @ k.mT))


def small(**changes: int) -> Transformer:
    """A model of one layer, d_model 16 and two heads, some widths changed."""
    sizes = {"d_model": 16, "n_heads": 2, "d_ff": 8, "n_encoder_layers": 1, "n_decoder_layers": 1, "d_k": 8, "d_v": 8}
    return Transformer(ModelConfig(src_vocab=9, tgt_vocab=9, **{**sizes, **changes})).eval()


def heads_width(changed: Transformer) -> int:
    """How wide the heads are side by side."""
    with tracing(changed, only="encoder.*.heads_merged") as steps:
        changed.encode(torch.tensor([[4, 5, 6]]))
    return steps.steps[0].shape[-1]


widths = {"neither": heads_width(small()), **{name: heads_width(small(**{name: 3})) for name in ("d_k", "d_v")}}
print("width of the concatenation, d_model = 16; changed from 8 to 3:", widths)
lesson.slips(
    f"{WHERE}: d_k",
    "the width that makes the concatenation d_model wide",
    ["d_k"],
    [name for name in ("d_k", "d_v") if widths[name] != widths["neither"]],
    words="this configuration ensures that the concatenated output of all attention heads matches the original"
    " `d_model` dimension",
    kind=CONSEQUENCE,
    why="Heads are weighted means of values: side by side they have h·d_v numbers, and d_k is summed away in QKᵀ.",
)
place = "encoder.layers.0"
x, merged = (trace[address] for address in ("src_embedding.with_positions", f"{place}.self_attention.heads_merged"))
lesson.slips(
    f"{WHERE}: d_k",
    "what is added to the residual stream, first numbers",
    round_numbers(merged[0, 0, :5]),
    round_numbers((trace[f"{place}.self_attention_add_norm.residual"] - x)[0, 0, :5]),
    words="allows the output to be added directly to the residual connection without additional linear projections",
    kind=CONSEQUENCE,
    why="The concatenation is not added without another linear projection: W_O comes between, in the text's 2-1-8.",
    within=0.01,
)

# %% [markdown]
# **Is everything computed token by token?** The text gives a rule of thumb: most calculations, self-attention among
# them, run for each token on its own, `nbatches × n_seq` times in parallel. For the feed-forward network this is
# right: the 18 vectors may as well go in one by one.

# %%
feed_forward = model.encoder.layers[0].feed_forward
vectors = trace[f"{place}.self_attention_add_norm.norm.output"].flatten(0, 1)
one_by_one = torch.stack([feed_forward(vector[None, None])[0, 0] for vector in vectors])
together = trace[f"{place}.feed_forward.output"].flatten(0, 1)
THUMB = "How shape changes"
lesson.states(THUMB, "nbatches × n_seq runs", math.prod(src_ids.shape), len(one_by_one))
lesson.states(THUMB, "feed-forward one by one", one_by_one[7, :4], together[7, :4], within=1e-4)

# %% [markdown]
# Self-attention is the exception, and the reason for its name: it is the place where tokens meet. We change one
# token, the " love" of the second sentence, and count the positions of that sentence that come out different.

# %%
other_ids = src_ids.clone()
other_ids[1, 3] = 3101  # " too" for " love"
with tracing(model) as other:
    model.encode(other_ids)


def changed_positions(address: str) -> int:
    """Positions of the second sentence whose vector is another."""
    return int(((other[address] - trace[address]).abs().amax(-1)[1] > 1e-6).sum())


for address in (
    "src_embedding.with_positions",
    f"{place}.self_attention.v_projected",
    f"{place}.self_attention.output",
):
    print(f"{address:44} {changed_positions(address)} of 6 positions changed")
lesson.slips(
    THUMB,
    "positions of self-attention's output that one token reaches",
    1,
    changed_positions(f"{place}.self_attention.output"),
    words="most calculations (token embedding, self-attention, feed-forward, etc.) in Transformer are applied **per"
    " token**",
    kind=CONSEQUENCE,
    why="Only Q, K and V are made token by token; QKᵀ and the weighted sum mix all positions of a sentence.",
)

# %% [markdown]
# ## 0. Input
#
# The text lists eight tokens and padding with their ids. The ids are GPT-4o's, and there a word in the middle of a
# sentence has its space with it: `love` without one is another entry. The strings are those of a word splitter. So is
# the function printed for this step, which asks a spaCy pipeline for words; it hands out strings and no ids.

# %%
TEXT_IDS = {"I": 40, "love": 3047, "you": 481, "am": 939, "in": 306, "with": 483, ",": 11, "too": 3101}
lesson.states("1-1", "ids of the table", list(TEXT_IDS.values()), GPT4O.encode("I love you am in with, too"))
print("'love' without its space is", GPT4O.encode("love"), "and with it", GPT4O.encode(" love"))
lesson.states("1-1", "ids of 'I love you', padded", [40, 3047, 481, 0, 0, 0], src_ids[0].tolist())
lesson.states("0", "shape (nbatches, n_seq)", (3, 6), tuple(src_ids.shape))
lesson.slips(
    "1-1",
    "the strings of ids 40, 3047, 481",
    ["I", "love", "you"],
    [STRINGS[number] for number in (40, 3047, 481)],
    words="|  `love`  |   3047   |",
    why="GPT-4o's tokens carry their space: joined without it they would spell 'Iloveyou'.",
)

# %% [markdown]
# The ids of the padded rows are given as GPT-4o's, with 0 for padding. GPT-4o's tokenizer has no padding, and its id
# 0 is a token like any other: the exclamation mark. Taking both as they stand hides every "!" from the model.
# (glassformer's own tokenizers keep the ids 0 to 3 for `<pad>`, `<s>`, `</s>` and `<unk>`.)

# %%
excited = [*GPT4O.encode("I love you"), *GPT4O.encode("!")]
print(
    "I love you! =", excited, "may be attended to:", padding_mask(torch.tensor([excited]), PAD_ID)[0, 0, 0].tolist()
)
lesson.slips(
    "0",
    "what id 0 is in GPT-4o's tokenizer",
    "[PAD]",
    STRINGS[0],
    words="| `[PAD]` |    0     |",
    why="There is no padding among its entries; an id outside them is needed, or a tokenizer that keeps one free.",
)

# %% [markdown]
# **The batch.** The text takes the class `Batch` of *The Annotated Transformer*. From padded sources and targets it
# makes five things: a source mask, the decoder's input (all but the last token), what the decoder is to say (all but
# the first), a target mask, and the number of tokens to predict. Here they are next to glassformer's `Batch`. Where
# the two inputs differ, the `</s>` of a shorter target has moved onto padding; nothing is to be said there, so it
# makes no difference.

# %%
whole = pad_ids([[BOS_ID, *ids, EOS_ID] for ids in written], PAD_ID, torch.device("cpu"))
tgt, tgt_y = whole[:, :-1], whole[:, 1:]
print("tgt, the text's slice\n", tgt, "\ntgt_in_ids, ours\n", batch.tgt_in_ids, "\ntgt_y and tgt_out_ids\n", tgt_y)
src_mask = (src_ids != PAD_ID).unsqueeze(-2)
tgt_mask = (tgt != PAD_ID).unsqueeze(-2) & causal_mask(7, 7, tgt.device)[0, 0]
print("src_mask", tuple(src_mask.shape), "  tgt_mask", tuple(tgt_mask.shape), "  ntokens", batch.target_tokens)

real = batch.tgt_out_ids != PAD_ID
lesson.states("0", "tgt_y is our tgt_out_ids", batch.tgt_out_ids.tolist(), tgt_y.tolist())
lesson.states(
    "0", "tgt is our tgt_in_ids where there is something to say", tgt[real].tolist(), batch.tgt_in_ids[real].tolist()
)
lesson.states("0", "ntokens counts what is not padding", int((tgt_y != PAD_ID).sum()), batch.target_tokens)
lesson.states(
    "0", "src_mask is the model's, but for the axis of heads", src_mask.tolist(), trace["src_mask"][:, 0].tolist()
)
SPECIALS = ["<s>", "</s>", "<blank>", "<unk>"]
lesson.states("0", "id of <blank>, the third of the special tokens", 2, SPECIALS.index("<blank>"))

# %% [markdown] tags=["more"]
# ### Which id is padding?
#
# The class takes 2 as padding unless told otherwise, as *The Annotated Transformer* has it; the text says so. For the
# ids above, which are filled up with 0, it must be told: with 2 the mask would hide nothing.

# %% tags=["more"]
hidden = {pad: int((src_ids == pad).sum()) for pad in (2, PAD_ID)}
print("padded cells that the mask hides:", hidden)
assert hidden == {2: 0, PAD_ID: 4}

# %% [markdown]
# Masks are easier to see than to read. White may be attended to, black is hidden. The first is the same for every
# query; the second is the *look-ahead* mask, which hides the future; the third joins it with the target's padding.

# %%
labels_src = [[STRINGS[number].strip() for number in ids] + ["[PAD]"] * (6 - len(ids)) for ids in rows]
labels_tgt = [german.to_tokens(ids) for ids in batch.tgt_in_ids.tolist()]
figure, axes = plt.subplots(1, 3, figsize=(9, 3.2), width_ratios=(1.5, 1, 1))
panels = [
    (src_mask[:, 0], "source padding", [f"sentence {n}" for n in (1, 2, 3)], list(range(6))),
    (trace["causal_mask"][0, 0], "look-ahead", labels_tgt[1], labels_tgt[1]),
    (tgt_mask[0], "look-ahead and padding", labels_tgt[0], labels_tgt[0]),
]
for axis, (mask, title, down, across) in zip(axes, panels, strict=True):
    axis.imshow(mask, cmap="gray", vmin=0, vmax=1)
    axis.set_title(title, fontsize=10)
    axis.set_yticks(range(len(down)), down, fontsize=8)
    axis.set_xticks(range(len(across)), across, fontsize=8, rotation=60)
    axis.set_xlabel("key")
    axis.set_ylabel("query")
axes[0].set_ylabel("any query of")
for row, tokens in enumerate(labels_src):
    for column, token in enumerate(tokens):
        axes[0].text(column, row, token, ha="center", va="center", fontsize=7, color="tab:orange")
figure.tight_layout()
plt.show()
plt.close("all")

# %% [markdown]
# ## 1. Encoder embedding
#
# From here on each step is one line: the text's number, what the tensor is, the text's symbols, our words for the
# same axes, and the sizes. The sizes on the left of `=` in the comparison come from the symbols; those printed are
# of the recorded tensor.


# %%
def step(where: str, address: str, symbols: str) -> Tensor:
    """Hold one tensor's shape against the text's symbols for it, and return the tensor."""
    found = trace.select(address)[0]
    claim = f"{story_of(address, config).title}, ({symbols}), here ({' '.join(resolved_axes(found))})"
    lesson.states(where, claim, tuple(SIZES[symbol] for symbol in symbols.split(", ")), found.shape)
    return found.value


# %% [markdown]
# ### 1-1. Token embedding
#
# Each id takes its row of `W_emb`. Then the whole vector is multiplied by √d_model.

# %%
embedded = step("1-1", "src_embedding.embedded", "nbatches, n_seq_src, d_model")
scaled = step("1-1", "src_embedding.scaled", "nbatches, n_seq_src, d_model")
print("E[0, :, :8], looked up\n", embedded[0, :, :8])
print("the same, times √512\n", scaled[0, :, :8])

lookup = torch.tensor([TEXT_ROWS[number] for number in src_ids[0].tolist()])
lesson.states("1-1", "E[0, :, :8]", lookup, embedded[0, :, :8], within=1e-6)
lesson.states("1-1", "the scale, √512", math.sqrt(512), float((scaled / embedded)[0, 0, 0]), within=1e-4)
spread, wave = (
    float(model.tgt_embedding.tokens.weight[1:].std()),
    float(trace["src_embedding.position_vectors"].std()),
)
print(f"\nspread of a new embedding {spread:.3f}, times √512 {spread * math.sqrt(512):.2f}; of positions {wave:.2f}")

# %% [markdown]
# The paper gives no reason for the scale. The last line fits the text's guess: embeddings start small, and without
# the scale the position vectors, added next, would drown them.
#
# ### 1-2. Positions
#
# The paper's position vectors are sines and cosines in pairs, and each pair has its own wavelength:
# PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), and PE(pos, 2i+1) the cosine. The text prints a table of them in which
# every pair is like the first: it has lost the divisor.

# %%
TEXT_PAIRS = torch.tensor([[0.00, 1.00], [0.84, 0.54], [0.91, -0.42], [0.14, -0.99], [-0.76, -0.65], [-0.96, 0.28]])
TEXT_POSITIONS = TEXT_PAIRS.repeat(1, 4)
positions = trace["src_embedding.position_vectors"]
print("the text\n", TEXT_POSITIONS, "\nthe model\n", positions[:, :8])

lesson.states("1-2", "PE[0], sines 0 and cosines 1", TEXT_POSITIONS[0], positions[0, :8], within=ROUNDING)
lesson.states("1-2", "the first pair of each position", TEXT_PAIRS, positions[:, :2], within=ROUNDING)
lesson.slips(
    "1-2",
    "PE[1] to PE[5], numbers shown that are right",
    TEXT_POSITIONS[1:].numel(),
    int(torch.isclose(TEXT_POSITIONS, positions[:, :8], rtol=0, atol=ROUNDING)[1:].sum()),
    words="PE[1, :] = [ 0.84,  0.54,  0.84,  0.54,  0.84,  0.54,  0.84,  0.54, ... ]",
    why="Pair i turns by 1 / 10000^(2i/512) radians a position, each slower than the last; these all turn by 1.",
)

# %%
longer = model.src_embedding.positions(torch.arange(60))
figure, axes = plt.subplots(1, 2, figsize=(9, 3.5))
picture = axes[0].imshow(longer[:, :128].T, cmap=signed_colours(), vmin=-1, vmax=1, aspect="auto", origin="lower")
axes[0].set(title="position vectors of the model", xlabel="position", ylabel="number within the vector (of 512)")
figure.colorbar(picture, ax=axes[0])
for pair in (0, 8, 24, 64):
    axes[1].plot(longer[:26, 2 * pair], label=f"pair {pair}")
axes[1].plot(range(6), TEXT_POSITIONS[:, 6], "kx", label="the text, any pair")
axes[1].set(title="sines of some pairs", xlabel="position", ylabel="value")
axes[1].legend(fontsize=7, loc="lower left", bbox_to_anchor=(1.0, 0.3))
figure.tight_layout()
plt.show()
plt.close("all")

# %% [markdown]
# Position vectors have no axis for the sentence: all rows of the batch get the same ones. They are as wide as the
# embeddings, so the sum has the shape of its parts. The text's sums are right as sums. But they add its unscaled
# embeddings, and leave out the √512 of its own step 1-1.

# %%
summed = step("1-2", "src_embedding.with_positions", "nbatches, n_seq_src, d_model")
step("1-2", "src_embedding.position_vectors", "n_seq_src, d_model")
print("E·√512 + PE of 'I love you'\n", summed[0, :, :8])

TEXT_SUMS = torch.tensor(
    [
        [0.12, 0.93, 0.91, 0.96, 0.26, 1.03, -0.18, 1.55],
        [1.17, 0.79, 0.36, 0.72, 0.75, 0.95, 0.91, 0.32],
        [0.36, -0.23, 0.98, 0.50, 0.77, -0.34, 1.27, -0.44],
        [0.14, -0.99, 0.14, -0.99, 0.14, -0.99, 0.14, -0.99],
        [-0.76, -0.65, -0.76, -0.65, -0.76, -0.65, -0.76, -0.65],
    ]
)
for row, token in enumerate(labels_src[0][:5]):
    sums = lookup[row] + TEXT_POSITIONS[row]
    lesson.states("1-2", f"E + PE as printed, {token} at {row}", TEXT_SUMS[row], sums, within=ROUNDING)
lesson.slips(
    "1-2",
    "what enters the encoder for 'I'",
    round_numbers(TEXT_SUMS[0]),
    round_numbers(summed[0, 0, :8]),
    words="E+PE[0, 0, :] = [ 0.12+0.00, -0.07+1.00,  0.91+0.00, -0.04+1.00, ... ]",
    why="Step 1-1 multiplies the embedding by √512 = 22.63 before the position is added; the sum leaves that out.",
    within=0.01,
)
lesson.states("1-2", "first pair of the three paddings", TEXT_PAIRS[3:], summed[0, 3:, :2], within=ROUNDING)
lesson.states("1-2", "paddings that still differ, by position", 3, len(summed[0, 3:].unique(dim=0)))

# %% [markdown] tags=["more"]
# ### What if there were no positions?
#
# Without positions, says the text, the model would not know the order. We set the position
# vectors to zero and turn the second sentence round. Each token keeps its vector, to the last bits: the encoder sees
# a bag of words. The decoder is another matter. Its look-ahead mask shows each position a different piece of the
# past, so from the second layer on some order comes through even without positions.

# %% tags=["more"]
order = [5, 4, 3, 2, 1, 0]
with tracing(model, edits={"*_embedding.position_vectors": torch.zeros_like}):
    forward, backward = (model.encode(ids)[0] for ids in (src_ids[1:2], src_ids[1:2, order]))
    swapped = batch.tgt_in_ids[1:2, [0, 2, 1, 3, 4, 5, 6]]
    said, said_swapped = (model(src_ids[1:2], ids)[0, -1] for ids in (batch.tgt_in_ids[1:2], swapped))
print(f"encoder, largest change of a token's vector {(forward[:, order] - backward).abs().max():.0e}")
print(f"decoder, largest change of the last logits  {(said - said_swapped).abs().max():.2f}")
last, first = forward[0, 5, :4], backward[0, 0, :4]  # " you" at the end, and the same at the start
lesson.states("1-2", "encoder without positions: order is lost", last, first, within=1e-4)

# %% [markdown]
# ## 2. Encoder layer
#
# An encoder layer has two sublayers, self-attention and a feed-forward network, and an *Add & Norm* round each. The
# base model has six such layers, each with weights of its own. All have the same shapes, so we look at the first.
#
# ### 2-1. Multi-head self-attention in eight steps
#
# **2-1-1.** Three linear maps make queries, keys and values of each token. The text writes `d_model` for the last
# axis. We write `heads_d_k` and `heads_d_v`, because it is the numbers of all heads side by side, 8 · 64. For values
# the text writes `d_k` where we write `d_v`; in the base model both are 64.
#
# **2-1-2.** The last axis is cut into heads. **2-1-3.** Heads move in front of positions.

# %%
ATTENTION = f"{place}.self_attention"
for name in "qkv":
    step("2-1-1", f"{ATTENTION}.{name}_projected", "nbatches, n_seq_src, d_model")
for name in "qkv":
    step("2-1-2", f"{ATTENTION}.{name}_split", "nbatches, n_seq_src, h, d_k")
for name in "qkv":
    step("2-1-3", f"{ATTENTION}.{name}", "nbatches, h, n_seq_src, d_k")
print("Q of 'I love you', first head, first numbers\n", trace[f"{ATTENTION}.q"][0, 0, :, :6])

attention = model.encoder.layers[0].self_attention
square = (SIZES["d_model"], SIZES["d_model"])
for name in ("w_q", "w_k", "w_v", "w_o"):
    lesson.states("2-1", f"size of {name}", square, tuple(getattr(attention, name).weight.shape))
lesson.states("2-1-2", "h = d_model // d_k", 512 // 64, trace[f"{ATTENTION}.q_split"].shape[2])
rows_of_head = slice(config.d_k, 2 * config.d_k)  # those of the second head
own = summed[0, 1] @ attention.w_q.weight[rows_of_head].T
lesson.states("2-1", "each head has its own W_Q", own[:4], trace[f"{ATTENTION}.q"][0, 1, 1, :4], within=1e-4)
linears = list(attention.children())
used = list(zip(linears, ("query", "key", "value"), strict=False))
lesson.states("2-1", "linear maps that zip reaches of the four", 3, len(used))
lesson.states("2-1", "the last of the four is W_O", True, linears[-1] is attention.w_o)

# %% [markdown]
# **2-1-4.** Every query meets every key of its sentence: one number for each pair, divided by √d_k. **2-1-5.**
# Softmax makes shares of each row, which sum to one.
#
# Between the two something is missing. The text has built a source mask in step 0, but none of its eight steps
# applies it. In the model the padded keys get −∞ first, and softmax turns that into a share of zero.

# %%
scores = step("2-1-4", f"{ATTENTION}.scores", "nbatches, h, n_seq_src, n_seq_src")
step("2-1-4", f"{ATTENTION}.masked_scores", "nbatches, h, n_seq_src, n_seq_src")
weights = step("2-1-5", f"{ATTENTION}.weights", "nbatches, h, n_seq_src, n_seq_src")
print("weights of 'I love you', first head: with the mask, and as the eight steps have it")
print(torch.cat([weights[0, 0], scores.softmax(-1)[0, 0]], dim=1))

lesson.states("2-1-4", "size for one sentence and head, n_seq × n_seq", (6, 6), tuple(scores[0, 0].shape))
lesson.states("2-1-4", "the scaling, √64", math.sqrt(64), float((q @ k.mT / scores)[0, 0, 0, 0]), within=1e-4)
lesson.states("2-1-5", "weights of each query sum to", torch.ones(3, 8, 6), weights.sum(-1), within=1e-5)

# %% [markdown]
# What does it cost to leave the mask out? We run the encoder without it, and compare the memory of the three
# words with what they come to alone, without padding.

# %%
addresses = [recorded.address for recorded in trace]
after_scores = addresses[addresses.index(f"{ATTENTION}.scores") + 1].removeprefix(f"{ATTENTION}.")
open_mask = Mask.from_visible(torch.ones_like(trace["src_mask"]))
unmasked = model.encoder(model.src_embedding(src_ids), open_mask)
with_mask, without_mask = (
    (memory[0, :3] - alone[0][0]).abs().max() for memory in (trace["encoder.memory"], unmasked)
)
print(f"memory of 'I love you' against the sentence alone: with the mask {with_mask:.0e}, without {without_mask:.2f}")

lesson.slips(
    "2-1-5",
    "what follows the scores",
    "softmax",
    after_scores,
    words="Apply softmax function to the attention score",
    kind=CONSEQUENCE,
    why="Without the source mask, padding takes its share of every query, and words mean other things in a batch.",
)
lesson.slips(
    "2-1-5",
    "weights of 'I', if the score of 2-1-4 has its softmax already",
    round_numbers(weights.softmax(-1)[0, 0, 0]),
    round_numbers(weights[0, 0, 0]),
    words="Attention score is calculated by $\\text{softmax}(\\frac{QK^T}{\\sqrt{d_k}})$.",
    kind=CONSEQUENCE,
    why="2-1-4 puts softmax into the score and 2-1-5 applies it again; a score is QKᵀ/√d_k, and softmax comes once.",
    within=0.01,
)

# %% [markdown]
# **2-1-6.** Each head takes the mean of the values, weighted by its shares. **2-1-7.** Positions move back in front
# of heads, and the heads of a position are laid side by side. A transposed tensor lies criss-cross in memory, and
# `view` refuses it; `contiguous` copies it into order first. **2-1-8.** W_O mixes the heads.

# %%
heads = step("2-1-6", f"{ATTENTION}.heads", "nbatches, h, n_seq_src, d_k")
step("2-1-7", f"{ATTENTION}.heads_by_position", "nbatches, n_seq_src, h, d_k")
merged = step("2-1-7", f"{ATTENTION}.heads_merged", "nbatches, n_seq_src, d_model")
output = step("2-1-8", f"{ATTENTION}.output", "nbatches, n_seq_src, d_model")
print("output of 'I love you', first numbers\n", output[0, :, :6])

lesson.states("2-1-7", "view without contiguous fails", True, fails(lambda: heads.transpose(1, 2).view(3, 6, 512)))
viewed = heads.transpose(1, 2).contiguous().view(3, 6, 512)
lesson.states("2-1-7", "view after contiguous is the concatenation", viewed[0, 1, 62:66], merged[0, 1, 62:66])

# %% [markdown] tags=["more"]
# ### How far does one head reach?
#
# Before W_O the heads sit side by side and have not met. We silence the second head and count the numbers of a
# token's vector that change: its own 64 before W_O, all 512 after it.


# %% tags=["more"]
def without_second_head(value: Tensor) -> Tensor:
    """The heads with nothing in the second."""
    value[:, 1] = 0.0
    return value


with tracing(model, edits={f"{ATTENTION}.heads": without_second_head}) as silenced:
    model.encode(src_ids)
reached = [int((silenced[a] != trace[a])[0, 0].sum()) for a in (f"{ATTENTION}.heads_merged", f"{ATTENTION}.output")]
lesson.states("2-1-8", "numbers that one head reaches, before and after W_O", [64, 512], reached)

# %% [markdown]
# **When may d_v differ from d_k?** The text promises an answer under *d_v* and never comes back to it. Here it is:
# always. `d_k` disappears in QKᵀ, and W_O maps whatever `h · d_v` is back to `d_model`. Only W_V and
# W_O change their size. Here with `d_v` = 96.

# %%
wide_config = ModelConfig(
    src_vocab=config.src_vocab,
    tgt_vocab=german.size,
    tie_embeddings="target",
    d_v=96,
    n_encoder_layers=1,
    n_decoder_layers=1,
)
wide = Transformer(wide_config).eval()
with tracing(wide) as wide_trace:
    wide(batch.src_ids, batch.tgt_in_ids)
for name in ("q", "k", "v", "weights", "heads", "heads_merged", "output"):
    found = wide_trace.select(f"{ATTENTION}.{name}")[0]
    print(f"{name:13} {' '.join(resolved_axes(found)):24} {found.shape}")
print("W_O:", tuple(wide.encoder.layers[0].self_attention.w_o.weight.shape))
joined = wide_trace[f"{place}.self_attention_add_norm.residual"]
lesson.states(f"{WHERE}: d_v", "d_v = 96 with d_k = 64 works", tuple(x.shape), tuple(joined.shape))
accepted = [d_v for d_v in (1, 8, 13) if heads_width(small(d_v=d_v)) == 2 * d_v]
lesson.slips(
    f"{WHERE}: d_v",
    "d_v of 1, 8 and 13 that a model with d_k = 8 takes",
    "never said",
    accepted,
    words="I will also explain later in this post when `d_v != d_k` is acceptable.",
    why="The post does not come back to it. It is always acceptable: d_k is summed away, and W_O takes h·d_v.",
)

# %% [markdown]
# **Add & Norm.** What the sublayer found is added to what went round it; then each vector is brought to mean 0 and
# variance 1 (*layer norm*). No shape changes.

# %%
residual = step("2-1, residual", f"{place}.self_attention_add_norm.residual", "nbatches, n_seq_src, d_model")
normed = step("2-1, LayerNorm", f"{place}.self_attention_add_norm.norm.output", "nbatches, n_seq_src, d_model")
lesson.states("2-1, residual", "x + sublayer(x)", (x + output)[0, 0, :4], residual[0, 0, :4], within=1e-4)
by_hand = (residual - residual.mean(-1, keepdim=True)) / residual.std(-1, keepdim=True, unbiased=False)
lesson.states("2-1, LayerNorm", "norm after the sum", by_hand[0, 0, :4], normed[0, 0, :4], within=1e-3)

# %% [markdown]
# ### 2-2. Feed-forward network
#
# Each vector on its own is widened to `d_ff`, loses its negative numbers (ReLU) and is narrowed again.

# %%
step("2-2-1", f"{place}.feed_forward.inner", "nbatches, n_seq_src, d_ff")
activated = step("2-2-2", f"{place}.feed_forward.activated", "nbatches, n_seq_src, d_ff")
step("2-2-3", f"{place}.feed_forward.output", "nbatches, n_seq_src, d_model")
step("2-2, residual + LayerNorm", f"{place}.feed_forward_add_norm.norm.output", "nbatches, n_seq_src, d_model")
print(f"{(activated == 0).float().mean():.0%} of the widened numbers are zero after ReLU, none is below")

major = ("src_embedding.with_positions", f"{ATTENTION}.output", f"{place}.feed_forward.output")
lesson.states(
    f"{WHERE}: d_model",
    "output of embedding, attention, feed-forward: (N, S, d_model)",
    {(3, 6, 512)},
    {tuple(trace[address].shape) for address in major},
)
for layer in range(6):
    step(f"2, layer {layer}", f"encoder.layers.{layer}.output", "nbatches, n_seq_src, d_model")

# %% [markdown]
# ## 3. Decoder embedding
#
# The same for the target, with another number of positions.

# %%
step("3-1", "tgt_embedding.embedded", "nbatches, n_seq_tgt, d_model")
step("3-2", "tgt_embedding.with_positions", "nbatches, n_seq_tgt, d_model")
print(labels_tgt[0])
print(trace["tgt_embedding.with_positions"][0, :, :8])

# %% [markdown]
# ## 4. Decoder layer
#
# A decoder layer has three sublayers: masked self-attention, cross-attention to the encoder's memory, and the
# feed-forward network.

# %%
decoder = "decoder.layers.0"
sublayers = [name for name, _ in model.decoder.layers[0].named_children() if not name.endswith("_add_norm")]
print(sublayers)
lesson.states("4", "sublayers of a decoder layer", 3, len(sublayers))

# %% [markdown]
# ### 4-1. Masked self-attention
#
# The eight steps of 2-1, and one more: before softmax every key behind the query gets −∞. So no position can look at
# the tokens that it is to predict.

# %%
MASKED = f"{decoder}.self_attention"
step("4-1-1", f"{MASKED}.q_projected", "nbatches, n_seq_tgt, d_model")
step("4-1-2", f"{MASKED}.q_split", "nbatches, n_seq_tgt, h, d_k")
step("4-1-3", f"{MASKED}.q", "nbatches, h, n_seq_tgt, d_k")
step("4-1-4", f"{MASKED}.scores", "nbatches, h, n_seq_tgt, n_seq_tgt")
look_ahead = step("4-1-5", f"{MASKED}.masked_scores", "nbatches, h, n_seq_tgt, n_seq_tgt")
shares = step("4-1-6", f"{MASKED}.weights", "nbatches, h, n_seq_tgt, n_seq_tgt")
step("4-1-7", f"{MASKED}.heads", "nbatches, h, n_seq_tgt, d_k")
step("4-1-8", f"{MASKED}.heads_merged", "nbatches, n_seq_tgt, d_model")
step("4-1-9", f"{MASKED}.output", "nbatches, n_seq_tgt, d_model")
step("4-1, residual + LayerNorm", f"{decoder}.self_attention_add_norm.norm.output", "nbatches, n_seq_tgt, d_model")
print("masked scores of the second sentence, first head\n", look_ahead[1, 0])
print("weights\n", shares[1, 0])

future = torch.ones(7, 7, dtype=torch.bool).triu(1)
lesson.states("4-1-5", "-inf just where j > i", future.tolist(), look_ahead[1, 0].isinf().tolist())
cheating = batch.tgt_in_ids.clone()
cheating[:, 4:] = german.to_ids("verliebt")[0]
unseen = (model(batch.src_ids, cheating) - logits)[:, :4].abs().max()
lesson.states("4-1-5", "change of earlier logits when later tokens change", 0.0, float(unseen), within=1e-5)

# %% [markdown] tags=["more"]
# ### The target's padding
#
# The text's `Batch` also hides the target's padding. Ours need not: padding stands on the right, and so it is in the
# future of every real token. The two masks agree at every query where there is something to say.

# %% tags=["more"]
ours = trace["causal_mask"][0].expand(3, -1, -1)
lesson.states("0", "tgt_mask at real queries is the look-ahead mask", ours[real].tolist(), tgt_mask[real].tolist())

# %% [markdown]
# ### 4-2. Cross-attention
#
# Queries come from the decoder, keys and values from the encoder's memory. So the scores are not square: `n_seq_tgt`
# rows, `n_seq_src` columns.

# %%
CROSS = f"{decoder}.cross_attention"
for name, side in (("q", "tgt"), ("k", "src"), ("v", "src")):
    step("4-2-1", f"{CROSS}.{name}_projected", f"nbatches, n_seq_{side}, d_model")
for name, side in (("q", "tgt"), ("k", "src"), ("v", "src")):
    step("4-2-2", f"{CROSS}.{name}_split", f"nbatches, n_seq_{side}, h, d_k")
for name, side in (("q", "tgt"), ("k", "src"), ("v", "src")):
    step("4-2-3", f"{CROSS}.{name}", f"nbatches, h, n_seq_{side}, d_k")
cross_scores = step("4-2-4", f"{CROSS}.scores", "nbatches, h, n_seq_tgt, n_seq_src")
cross_weights = step("4-2-5", f"{CROSS}.weights", "nbatches, h, n_seq_tgt, n_seq_src")
step("4-2-6", f"{CROSS}.heads", "nbatches, h, n_seq_tgt, d_k")
step("4-2-7", f"{CROSS}.heads_by_position", "nbatches, n_seq_tgt, h, d_k")
step("4-2-7", f"{CROSS}.heads_merged", "nbatches, n_seq_tgt, d_model")
step("4-2-8", f"{CROSS}.output", "nbatches, n_seq_tgt, d_model")
cross_norm = f"{decoder}.cross_attention_add_norm.norm.output"
step("4-2, residual + LayerNorm", cross_norm, "nbatches, n_seq_tgt, d_model")
lesson.states(
    "4-2", "every target position sees all six tokens of sentence 2", True, bool((cross_weights[1] > 0).all())
)
lesson.slips(
    "4-2",
    "whose sublayers this Add & Norm belongs to",
    "Encoder",
    cross_norm.split(".", maxsplit=1)[0].capitalize(),
    words="**Residual + LayerNorm**: After each submodules in Encoder finishes",
    why="The sentence is carried over from the encoder; three Add & Norms like this one stand in each decoder layer.",
)

# %% [markdown]
# **No mask in cross-attention?** So says a note in the text, because keys and values are the encoder's. There is no
# *future* to hide: the source is known as a whole. But the source has *padding*, and the encoder hands out a vector
# for it like for any other position. We decode once with the mask and once without.

# %%
memory, memory_mask = model.encode(batch.src_ids)
kept = model.decode(batch.tgt_in_ids, memory, memory_mask)
with tracing(model, only=f"{CROSS}.weights") as unmasked_cross:
    left_out = model.decode(batch.tgt_in_ids, memory, torch.ones_like(memory_mask))
on_padding = (unmasked_cross[f"{CROSS}.weights"] * (~memory_mask)).sum(-1)[real[:, None].expand(-1, 8, -1)].view(-1)
print(f"share of a query that padding takes without the mask, at most {on_padding.max():.2f}")
change = (kept - left_out)[real].abs()
for sentence, moved in zip(SENTENCES, (kept - left_out).abs().amax((1, 2)), strict=True):
    print(f"{sentence:22} logits move by at most {moved:.4f}")

by_itself = model(torch.tensor([rows[0]]), batch.tgt_in_ids[:1, :4])
print(
    f"'I love you' in the batch against alone: {(by_itself - kept[:1, :4]).abs().max():.0e} with the mask", end=", "
)
print(f"{(by_itself - left_out[:1, :4]).abs().max():.2f} without")
lesson.slips(
    "4-2-4",
    "change of the logits when the mask is left out",
    0.0,
    round(float(change.max()), 4),
    words="No need for masking since $K,V$ are from Encoder.",
    kind=CONSEQUENCE,
    why="Keys of source padding must be hidden: otherwise a sentence's output depends on its neighbours' length.",
    within=0.01,
)

# %% [markdown]
# The sentence without padding does not move. "I love you", half of whose row is padding, moves most. With the mask
# its output is the same as alone.

# %%
moves = (kept - left_out).abs().amax((1, 2)).tolist()
assert moves[1] < 1e-5
assert max(moves) == moves[0] > moves[2] > 0.01
assert (by_itself - kept[:1, :4]).abs().max() < 1e-4

# %% [markdown]
# ### 4-3. Feed-forward network
#
# As in 2-2, for the target's positions.

# %%
step("4-3", f"{decoder}.feed_forward.inner", "nbatches, n_seq_tgt, d_ff")
step("4-3", f"{decoder}.feed_forward.activated", "nbatches, n_seq_tgt, d_ff")
step("4-3", f"{decoder}.feed_forward.output", "nbatches, n_seq_tgt, d_model")
for layer in range(6):
    step(f"4, layer {layer}", f"decoder.layers.{layer}.output", "nbatches, n_seq_tgt, d_model")

# %% [markdown]
# ## 5. LM head
#
# **5-1.** A linear map gives each target position one number, a *logit*, for each entry of the target vocabulary.
# **5-2.** Softmax makes probabilities of them.

# %%
step("5-1", "output_projection.logits", "nbatches, n_seq_tgt, vocab")
probabilities = step("5-2", "output_projection.probabilities", "nbatches, n_seq_tgt, vocab")
lesson.states("5-2", "probabilities of each position sum to", torch.ones(3, 7), probabilities.sum(-1), within=1e-5)
lesson.slips(
    "5-2",
    "the shape that goes into softmax",
    tuple(SIZES[symbol] for symbol in ("nbatches", "n_seq_tgt", "d_model")),
    tuple(trace["output_projection.logits"].shape),
    words="`(nbatches, n_seq_tgt, d_model) → (nbatches, n_seq_tgt, vocab)`",
    why="The line of 5-1 is repeated: softmax is given (nbatches, n_seq_tgt, vocab) and leaves the shape as it is.",
)
print("the first position of 'Ich liebe dich', untrained")
for token, share in zip(german.to_tokens(range(german.size)), probabilities[0, 0].tolist(), strict=True):
    print(f"  {token:9} {share:.3f}")

# %% [markdown] tags=["more"]
# ## Training
#
# In training no token is chosen. The probabilities of all positions are compared with the true next tokens at once:
# *cross-entropy* is the mean of −log p over the tokens to predict. Padding does not count.

# %% tags=["more"]
truth = probabilities.gather(-1, batch.tgt_out_ids[..., None]).squeeze(-1)[real]
_, nll, ntokens = smoothed_loss(logits, batch.tgt_out_ids, PAD_ID, 0.0)
print(
    f"untrained: {float(nll) / ntokens:.2f} nats for each of {ntokens} tokens; by chance {math.log(german.size):.2f}"
)
lesson.states(
    "5, training",
    "cross-entropy, mean of -log p(true token)",
    float(-truth.log().mean()),
    float(nll) / ntokens,
    within=1e-4,
)

# %% [markdown] tags=["more"]
# To see what comes of it we train a small model on the three sentences: one layer on each side, `d_model` = 64, four
# heads. German has three words for "you", and we give it all of them: of eight translations four say *dich*, three
# *euch* and one *Sie*. So the loss cannot fall to zero. It can only fall to the uncertainty (*entropy*) of that
# choice.

# %% tags=["more"]
FORMS = {"dich": 4, "euch": 3, "Sie": 1}
PATTERNS = [sentence.replace("dich", "{}") for sentence in GERMAN]
pairs = [
    (sentence, pattern.format(form))
    for sentence, pattern in zip(SENTENCES, PATTERNS, strict=True)
    for form, count in FORMS.items()
    for _ in range(count)
]
english = Tokenizer.train("words", SENTENCES, 40)
little_config = ModelConfig(
    src_vocab=english.size, tgt_vocab=german.size, tie_embeddings="target", d_model=64, n_heads=4, d_ff=128,
    n_encoder_layers=1, n_decoder_layers=1, dropout=0.0,
)  # fmt: skip
torch.manual_seed(0)
little = Transformer(little_config)
sources = pad_ids([[*english.to_ids(source), EOS_ID] for source, _ in pairs], PAD_ID, torch.device("cpu"))
targets_in = pad_ids([[BOS_ID, *german.to_ids(target)] for _, target in pairs], PAD_ID, torch.device("cpu"))
targets_out = pad_ids([[*german.to_ids(target), EOS_ID] for _, target in pairs], PAD_ID, torch.device("cpu"))

torch.set_grad_enabled(True)
optimiser = torch.optim.Adam(little.parameters(), lr=2e-3)
losses = []
for _ in range(200):
    loss, _, tokens = smoothed_loss(little(sources, targets_in), targets_out, PAD_ID, 0.0)
    optimiser.zero_grad()
    (loss / tokens).backward()
    optimiser.step()
    losses.append(loss.item() / tokens)
torch.set_grad_enabled(False)
little.eval()

chances = torch.tensor([count / 8 for count in FORMS.values()])
entropy = float(-(chances * chances.log()).sum()) * len(pairs) / tokens
print(f"loss before {losses[0]:.3f}, after {losses[-1]:.3f}; least possible {entropy:.3f}")
lesson.states("5, training", "updates lower the loss", True, entropy <= losses[-1] < 0.1 * losses[0])

figure, axis = plt.subplots(figsize=(7, 2.6))
axis.plot(losses, label="cross-entropy")
axis.axhline(entropy, color="black", linestyle=":", label="least possible: dich, euch or Sie")
axis.set(xlabel="updates", ylabel="nats for each token", ylim=(0, None))
axis.legend()
figure.tight_layout()
plt.show()
plt.close("all")

# %% [markdown] tags=["more"]
# ## Inference
#
# Now a token is chosen, and what was chosen is fed back as input for the next. *Greedy* search takes the most
# probable token each time. Written out, and as the translator does it:

# %% tags=["more"]
translator = Translator(little, english, german, DecodeConfig(beam=1))
memory, memory_mask = little.encode(torch.tensor([[*english.to_ids(SENTENCES[0]), EOS_ID]]))
so_far = [BOS_ID]
while so_far[-1] != EOS_ID and len(so_far) < 10:
    next_logits = little.decode(torch.tensor([so_far]), memory, memory_mask)[0, -1]
    so_far.append(int(next_logits.argmax()))
    print(german.to_tokens(so_far))

translations = translator.translate(SENTENCES, attention=True)
print([translation.text for translation in translations])
lesson.states("5, inference", "greedy, fed back by hand", translations[0].text, german.to_text(so_far))

# %% [markdown] tags=["more"]
# Other strategies draw the token at random. *Top-k* keeps the k most probable tokens; *nucleus* sampling, or top-p,
# keeps the smallest set whose probabilities sum to at least p. What is kept is scaled up to sum to one. After "Ich
# liebe" the model has learned the chances 4/8, 3/8 and 1/8, so we can see what each strategy does.

# %% tags=["more"]
prefix = torch.tensor([[BOS_ID, *german.to_ids("Ich liebe")]])
log_probs = token_log_probs(little.decode(prefix, memory, memory_mask)[0, -1], little_config)
strategies = {
    "as it is": log_probs, "top-k, k = 2": keep_top_k(log_probs, 2),
    "nucleus, p = 0.6": keep_top_p(log_probs, 0.6), "nucleus, p = 0.4": keep_top_p(log_probs, 0.4),
}  # fmt: skip
words = list(FORMS)
columns = [german.to_ids(word)[0] for word in words]
print(f"{'':18}" + "".join(f"{word:>8}" for word in words))
for name, kept_log_probs in strategies.items():
    print(f"{name:18}" + "".join(f"{share:8.3f}" for share in kept_log_probs.exp()[columns].tolist()))

drawing = DecodeConfig(sample=True, top_k=2, seed=0)
drawn = Counter(translation.text for translation in translator.translate([SENTENCES[0]] * 70, drawing))
print(dict(drawn), "expected, of 70: 40 and 30")

lesson.states("5, inference", "top-k: tokens left, k = 2", 2, int(strategies["top-k, k = 2"].isfinite().sum()))
nucleus = strategies["nucleus, p = 0.4"]
lesson.states(
    "5, inference", "nucleus: a small p leaves what greedy takes", int(log_probs.argmax()), int(nucleus.argmax())
)

# %% [markdown] tags=["more"]
# **Where the decoder looked.** The four heads of the one decoder layer, while it wrote the second sentence. Each row
# is a token that it wrote and sums to one. The model has seen three sentences only, so do not expect a dictionary: it
# needs to know which sentence it is in, and any telling token will do.

# %% tags=["more"]
best = translations[1].hypotheses[0]
figure, axes = plt.subplots(1, 4, figsize=(9.5, 3.2), sharey=True)
for head, axis in enumerate(axes):
    shade = axis.imshow(best.attention[0, head], cmap=share_colours(), vmin=0, vmax=1)
    axis.set_title(f"head {head}", fontsize=10)
    axis.set_xticks(range(7), translations[1].source_tokens, rotation=60, fontsize=8)
    axis.set_yticks(range(7), best.tokens, fontsize=8)
    axis.set_xlabel("source")
axes[0].set_ylabel("target, as written")
figure.tight_layout()
figure.colorbar(shade, ax=axes, shrink=0.7, pad=0.02, label="weight")
plt.show()
plt.close("all")

# %% [markdown] tags=["more"]
# ### The mask once more
#
# What does the mask of cross-attention matter to somebody who translates? We give "I love
# you" longer and longer neighbours, that is more and more padding, and ask the trained model for the word after "Ich
# liebe". With the mask the answer never moves. Without it the probabilities move with the number of paddings,
# although the sentence is the same.

# %% tags=["more"]
paddings = [0, 1, 2, 4, 8, 16, 32, 64, 128]
source = sources[:1, :4]  # I love you </s>
heard = {"with the mask": [], "without": []}
for count in paddings:
    memory, memory_mask = little.encode(torch.nn.functional.pad(source, (0, count), value=PAD_ID))
    for name, mask in zip(heard, (memory_mask, torch.ones_like(memory_mask)), strict=True):
        shares = little.decode(prefix, memory, mask)[0, -1].softmax(-1)
        heard[name].append(shares[columns].tolist())
print("paddings  " + "".join(f"{name + ': ' + word:>21}" for name in heard for word in words[:2]))
for row, count in enumerate(paddings):
    print(f"{count:8}  " + "".join(f"{heard[name][row][place]:21.3f}" for name in heard for place in (0, 1)))
masked_once, *masked_more = torch.tensor(heard["with the mask"])
assert torch.stack(masked_more).sub(masked_once).abs().max() < 1e-5

figure, axis = plt.subplots(figsize=(7, 3))
for name, style in (("with the mask", "-"), ("without", "--")):
    for place, colour in ((0, "tab:blue"), (1, "tab:orange")):
        line = [shares[place] for shares in heard[name]]
        axis.plot(range(len(paddings)), line, style, color=colour, label=f"{words[place]}, {name}")
axis.set_xticks(range(len(paddings)), paddings)
axis.set(xlabel="paddings behind 'I love you </s>'", ylabel="probability after 'Ich liebe'", ylim=(0.25, 0.6))
axis.legend(fontsize=8, ncols=2)
figure.tight_layout()
plt.show()
plt.close("all")

# %% [markdown]
# ## The same from one call
#
# `walk` takes a translator and sentences, and lists every tensor of the run with its equation, the text's symbols and
# its shape. Our translator ends each source with `</s>`, so `n_seq_src` is 7 here. `glassformer trace` prints the
# same for your own model on the command line; `trace --ids` prints ids and masks as whole tables.
#
# **See it live:** [the living page](../../page.md) has the same shapes and every number in a browser. `glassformer
# explore "I love you, too." --open` opens it; behind its address, `#decoder.layers.0.cross_attention.scores` leads to
# step 4-2-4.

# %% tags=["fold"]
walked = walk(translator, SENTENCES, GERMAN)
print_walk(walked, Console(width=118, force_jupyter=False, color_system=None))

# %% [markdown]
# ## Exercises

# %% tags=["exercises"]
lesson.exercise(
    "Two sentences of 4 and 9 tokens, base: how many numbers has the tensor of the scores of one encoder layer?",
    2 * 8 * 9 * 9,
    2 * ModelConfig().n_heads * max(4, 9) ** 2,
)
lesson.exercise(
    "The target has 7 positions and the source 6. What is the shape of one head's weights in cross-attention?",
    (7, 6),
    tuple(cross_weights.shape[2:]),
)
lesson.exercise(
    "Base with d_v = 96 in place of 64: how many numbers has W_O?", 8 * 96 * 512, wide.encoder.layers[0]
    .self_attention.w_o.weight.numel(),
)  # fmt: skip

# %%
lesson.end()
