# %% [markdown]
# # The whole architecture, part three: the decoder
#
# *Transformer* (text 004) ends with the decoder: what it reads, what its masks hide, how it looks at the source, and
# how words are drawn from its output. Here two small models are trained first, so that there is something to see. At
# the end every choice of the three parts is made by one value of the configuration.
#
# After this lesson you can say what teacher forcing is and what each mask hides, find the source word that a decoder
# looks at, and choose between greedy search, temperature, top-k and top-p.
#
# What the text states and what comes out again is folded with the code that holds it. A line with ✗ shows a place
# where the text slips: what it states, and what comes out.

# %%
import math
import random
import tempfile
from collections import Counter
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from lesson import CONSEQUENCE, Lesson
from rich.console import Console

from glassformer import DecodeConfig, ModelConfig, RunConfig, TextConfig, Transformer, Translator, tracing
from glassformer.decoding.search.filters import filter_log_probs
from glassformer.decoding.search.sampling import draw_ids
from glassformer.decoding.search.steps import DecoderSteps
from glassformer.explain import resolved_axes
from glassformer.explain.recording.recording import record_pass
from glassformer.model.masks import causal_mask
from glassformer.model.norm import AddAndNorm
from glassformer.settings.section import apply_overrides
from glassformer.tasks import Task
from glassformer.text import BOS_ID, EOS_ID, PAD_ID, Pair
from glassformer.trace.palette import share_colours
from glassformer.training.reporting.display import PlainDisplay
from glassformer.training.request.arguments import TrainRequest
from glassformer.training.request.data import TaskSource
from glassformer.training.train import train

torch.manual_seed(0)
lesson = Lesson("004", "Transformer")

# %% [markdown]
# ## Two small models
#
# The text's example has the same sentence as source and as target. So the first model learns to repeat sentences of
# a few words, in any order; "I love cream crackers" is not among those that it is trained on. The second one answers
# "I love you", in four ways that are not equally frequent. `trained` is the package's own training with settings as
# they would stand on the command line behind `--set`.

# %%
SETTINGS = [
    "model.d_model=64", "model.n_heads=1", "model.d_ff=128", "model.n_encoder_layers=1", "model.n_decoder_layers=1",
    "model.norm=pre", "model.dropout=0.0", "model.max_length=64", "text.tokenizer=words", "text.vocab_size=320",
    "train.schedule=inverse_sqrt", "train.peak_rate=0.01", "train.warmup=20", "train.label_smoothing=0.0",
    "train.batch_tokens=256", "train.max_updates=60", "train.validate_every=1000", "train.valid_translations=1",
    "train.cooldown=0", "train.average_last=1", "decode.beam=1", "decode.max_length_b=10",
]  # fmt: skip


def train_on(pairs, *changes):
    """A translator that learned the pairs, all but the last twenty, and its loss per token on those twenty."""
    values = {}
    apply_overrides(values, [*SETTINGS, *changes])
    source = TaskSource(Task("lesson", "", pairs[:-20], pairs[-20:], [], {}))
    with tempfile.TemporaryDirectory() as place:
        run, silent = Path(place) / "run", PlainDisplay(Console(quiet=True))
        outcome = train(TrainRequest(run, source, RunConfig.from_mapping(values)), silent)
        return Translator.load(run, device="cpu"), outcome.final.loss


WORDS = ["I", "you", "we", "they", "love", "like", "eat", "bake", "cream", "crackers", "apples", "tea", "and", "now"]
SENTENCE = "I love cream crackers"
draw = random.Random(0)
sentences = {" ".join(draw.sample(WORDS, draw.randint(2, 5))): None for _ in range(4000)}
echo_pairs = [Pair(text, text) for text in sentences if text != SENTENCE]
echo, loss = train_on(echo_pairs, "train.max_updates=240", "train.warmup=50", "train.peak_rate=0.005")
print(f"{len(echo_pairs)} sentences, loss on unseen ones {loss:.3f}")
print(f"{SENTENCE!r} -> {echo.translate([SENTENCE])[0].text!r}")

ANSWERS = {"I love you too": 5, "I feel the same way about you": 3, "thank you": 4, "really": 2}
answer_pairs = [Pair("I love you", text) for text, count in ANSWERS.items() for _ in range(count)]
answers, _ = train_on(answer_pairs * 10, "train.batch_tokens=2048", "train.bucket=16")
print(f"'I love you' -> {answers.translate(['I love you'])[0].text!r}")

# %% [markdown]
# ## A decoder layer
#
# It has what an encoder layer has, and one sublayer more: attention to the source, between the other two. Each
# sublayer has its own residual and norm; the text's list of steps passes over the one of the middle.

# %%
model, tokenizer = echo.model, echo.src_tokenizer
layers = model.encoder.layers[0], model.decoder.layers[0]
for layer in layers:
    print(f"{type(layer).__name__}: {', '.join(name for name, _ in layer.named_children())}")
sublayers = [sum(isinstance(part, AddAndNorm) for part in layer.children()) for layer in layers]
lesson.states("Decoder", "sublayers more than in the encoder", 1, sublayers[1] - sublayers[0])

# %% [markdown]
# ## Teacher forcing
#
# In training the decoder reads the true target, one place to the right: a start token, which the text calls `<BOS>`
# and glassformer `<s>`, then all words but the last. At every position it is to say the next one. So one pass
# predicts all positions at once. The text's letters for the axes (B sentences, N tokens, D wide, H heads of width
# d_k) are shown next to glassformer's words.

# %%
LETTERS = {
    "batch": "B", "src": "N", "tgt": "N", "d_model": "D", "heads": "H", "d_k": "d_k", "d_v": "d_k", "d_ff": "d_ff",
    "one": "1", "vocab": "vocabulary",
}  # fmt: skip


def show(trace, *patterns):
    """Print the recorded steps whose addresses match, with their axes in both notations and their sizes."""
    for step in (step for pattern in patterns for step in trace.select(pattern)):
        words = resolved_axes(step)
        letters = " × ".join(LETTERS[word] for word in words)
        print(f"{step.address:41} {letters:18} ({', '.join(words)}) = {step.shape}")


def round_all(numbers):
    """Numbers with three decimals."""
    return [round(number, 3) for number in numbers.tolist()]


words = tokenizer.to_ids(SENTENCE)
src_ids = torch.tensor([[*words, EOS_ID]])
tgt_in_ids, tgt_out_ids = torch.tensor([[BOS_ID, *words]]), torch.tensor([[*words, EOS_ID]])
read, wanted = tokenizer.to_tokens(tgt_in_ids[0]), tokenizer.to_tokens(tgt_out_ids[0])
print("position  reads      is to say")
for place, (before, after) in enumerate(zip(read, wanted, strict=True)):
    print(f"{place:8}  {before:10} {after}")
lesson.states("Decoder, step 1", "what the decoder reads", ["<s>", "I", "love", "cream", "crackers"], read)

trace = record_pass(model, src_ids, tgt_in_ids)
show(trace, "tgt_embedding.with_positions", "decoder.layers.0.output", "output_projection.logits")
log_probs = trace["output_projection.logits"].log_softmax(dim=-1)
lesson.states("Decoder, step 1", "positions predicted in one pass", tgt_out_ids.shape[1], log_probs.shape[1])

# %% [markdown]
# Without the true words at hand the decoder runs step by step, and each word it chose is the next it reads. This is
# what *autoregressive* means. It is the same computation: fed with the same words one after another, it gives the
# same probabilities as the single pass with all of them.

# %%
with torch.no_grad():
    steps = DecoderSteps(model, src_ids)
    one_by_one = torch.stack([steps.next_log_probs(tgt_in_ids[:, place]) for place in range(5)], dim=1)
chosen = [table.gather(2, tgt_out_ids[:, :, None]).exp().flatten() for table in (one_by_one, log_probs)]
off = float((chosen[0] - chosen[1]).abs().max())
lesson.states("Decoder, step 1", "in parallel less what step by step gives", 0.0, off, within=1e-5)

# %% [markdown]
# The text calls autoregression "the opposite of teacher forcing". They are no opposites: one is what the model is
# (each word depends on those before it), the other says where these words come from in training. A model under
# teacher forcing is as autoregressive as one that writes, and the two gave the same probabilities just now.

# %%
lesson.slips("Decoder, autoregressive model", "teacher forcing and step by step: largest difference of a probability",
    "opposites", round(off, 5), words="This pattern is the opposite of teacher forcing",
    why="The same probabilities: teacher forcing only says that the words before are the true ones.")  # fmt: skip

# %% [markdown]
# Each step relies on all the words before it, not on the last one alone. The answering model has two sentences in
# which "you" is the word before: after "I love you" it continues with "too", after "thank you" it ends.


# %%
def next_words(prefix):
    """The probability of each token after a prefix of an answer."""
    ids = torch.tensor([[BOS_ID, *answers.tgt_tokenizer.to_ids(prefix)]])
    source = torch.tensor([[*answers.src_tokenizer.to_ids("I love you"), EOS_ID]])
    return record_pass(answers.model, source, ids)["output_projection.probabilities"][0, -1]


for prefix, wanted_next in (("I love you", "too"), ("thank you", "</s>")):
    probabilities = next_words(prefix)
    best = answers.tgt_tokenizer.to_tokens([int(probabilities.argmax())])[0]
    print(f"after {prefix!r}: {best} with {probabilities.max():.2f}")
    assert best == wanted_next

# %% [markdown]
# ## Padding mask
#
# Sentences of a batch are filled up to one length with `<pad>`. So that no token looks there, the scores of these
# columns are replaced before the softmax, by -1e9 in the text and by minus infinity here. In numbers of 32 bits both
# give a weight of exactly 0. This section and the next look at the echo model as it was before training, when its
# attention was still spread wide enough to show what is hidden.

# %%
torch.manual_seed(0)
fresh = Transformer(model.config)
ids = tokenizer.to_ids("I love you")
filled = tokenizer.to_tokens([*ids, *[PAD_ID] * (4 - len(ids))])
lesson.states("Decoder, step 1", "'I love you' at length 4", ["I", "love", "you", "<pad>"], filled)

six = torch.tensor([[*words, PAD_ID, PAD_ID]])
at = "encoder.layers.0.self_attention"
trace, alone = record_pass(fresh, six, tgt_in_ids), record_pass(fresh, six[:, :4], tgt_in_ids)
show(trace, "src_mask", f"{at}.scores", f"{at}.weights")
padding = trace[f"{at}.weights"][0, 0]
lesson.states("Decoder, step 1", "columns hidden at length 6", 6 - 4, int((padding == 0).all(dim=0).sum()))
below = trace[f"{at}.scores"].masked_fill(~trace["src_mask"], -1e9).softmax(dim=-1)[0, 0]
lesson.states("Decoder, step 1", "-1e9 hides them as well", below, padding, within=1e-7)
memory = alone["encoder.memory"]
lesson.states("Decoder, step 1", "padding changes no word", memory, trace["encoder.memory"][:, :4], within=1e-5)
with torch.no_grad(), tracing(fresh, edits={"src_mask": torch.ones_like}) as unmasked:
    fresh(six, tgt_in_ids)
off = float((unmasked["encoder.memory"][:, :4] - memory).abs().max())
print(f"without the mask the memory of the four words is off by up to {off:.2f}")
rows = int((padding == 0).all(dim=1).sum())
lesson.slips("Decoder, step 1", "rows and columns of the weights that are hidden, for 4 words at length 6", (2, 0),
    (rows, int((padding == 0).all(dim=0).sum())), words="so we need to mask to more rows", kind=CONSEQUENCE,
    why="Columns are hidden: nobody looks at padding. Its rows stay, and nobody reads what they give.")  # fmt: skip
lesson.states("Decoder, step 1", "without the mask it interferes", True, off > 0.01)

# %% [markdown]
# The two differ where *everything* is hidden: -1e9 in every column is the same score for all, and softmax spreads
# the weight evenly over the padding. Glassformer gives such a row zeros. And 16-bit numbers end at 65,504.

# %%
print("a row of -1e9:", torch.full((4,), -1e9).softmax(dim=0).tolist())
nothing = record_pass(fresh, torch.full((1, 4), PAD_ID), tgt_in_ids)[f"{at}.weights"][0, 0, 0]
print("a row of padding in glassformer:", nothing.tolist())
print("-1e9 in 16 bits:", float(torch.tensor(-1e9).half()))

# %% [markdown]
# ## Sequence mask
#
# If the decoder could see the word that it is to say, it would learn to copy it and nothing else. So a position sees
# itself and what is before, a lower triangle. The text's example is "I love you".

# %%
prefix = ["<BOS>", "I", "love"]
look = causal_mask(3, 3, torch.device("cpu"))[0, 0]
seen = [" ".join(word for word, sees in zip(prefix, row, strict=True) if sees) for row in look.tolist()]
lesson.states("Decoder, step 1", "what each word is predicted from", ["<BOS>", "<BOS> I", "<BOS> I love"], seen)

trace = record_pass(fresh, src_ids, tgt_in_ids)
at = "decoder.layers.0.self_attention"
show(trace, *(f"{at}.{name}" for name in ("q", "k", "v", "products", "scores", "weights", "heads")))
q, k, v = (trace[f"{at}.{name}"][0, 0] for name in "qkv")
m = torch.full((5, 5), -math.inf).triu(1)
causal = (q @ k.T / math.sqrt(q.shape[1]) + m).softmax(dim=-1)
made = trace[f"{at}.weights"][0, 0]
lesson.states("Decoder, step 1", "softmax(QKᵀ/√d + M), M of 0 and -∞", causal, made, within=1e-5)
lesson.states("Decoder, step 1", "weights of the upper triangle", torch.zeros(10), causal[m < 0])
lesson.states("Decoder, step 1", "new context A V", causal @ v, trace[f"{at}.heads"][0, 0], within=1e-5)

# %% [markdown]
# The text's list leaves out the division by √d, which its step 3.2 rightly has. And it sums up: each row of the
# result "has a weight of 0", and it is the average of the vectors *before* the current position. But the weights of
# every row sum to 1, and the current position is among them: the first row has nothing but itself.

# %%
undivided = (q @ k.T + m).softmax(dim=-1)
lesson.slips("Decoder, step 1", "weights of the last row", round_all(undivided[-1]), round_all(causal[-1]),
    words="Add $QK^T$ to a Mask matrix element by element.", kind=CONSEQUENCE,
    why="The list leaves out the division by √d, without which attention is too sharp.")  # fmt: skip
lesson.slips("Decoder, step 1", "weight of each row of Z", torch.zeros(5), causal.sum(dim=-1), within=1e-3,
    words="each row of Z has a weight of 0",
    why="Only the hidden places have weight 0; each row's weights sum to 1.")  # fmt: skip
lesson.slips("Decoder, step 1", "vectors that each row averages", list(range(5)), (causal > 0).sum(dim=-1).tolist(),
    words="each row of $Z$ is a weighted average of all word vectors before the current position", kind=CONSEQUENCE,
    why="A position sees itself too, as the mask's lower triangle with its diagonal says.")  # fmt: skip

# %% [markdown]
# To see what it prevents, the last word that the decoder reads is replaced. With the mask the predictions before it
# stay as they are; without it they change.

# %%
replaced = tgt_in_ids.clone()
replaced[0, -1] = tokenizer.to_ids("tea")[0]


def leak(edits):
    """The largest change of the logits at the earlier positions when the last word is another."""
    logits = []
    for ids in (tgt_in_ids, replaced):
        with torch.no_grad(), tracing(fresh, edits=edits):
            logits.append(fresh(src_ids, ids)[:, :-1])
    return float((logits[0] - logits[1]).abs().max())


open_mask = {"causal_mask": torch.ones_like}
print(f"change without the mask: {leak(open_mask):.2f}")
lesson.states("Decoder, step 1", "change of earlier predictions, with the mask", 0.0, leak({}), within=1e-6)
lesson.states("Decoder, step 1", "without it information leaks", True, leak(open_mask) > 0.1)

# %% [markdown]
# When words are written one at a time and the keys of the earlier ones are kept (the cache), the one new query may
# see all there is. The triangle's last row hides nothing, and this mask is not needed. The padding mask of the
# source is needed still.

# %%
last_row = causal_mask(1, 5, torch.device("cpu"))
lesson.states("Decoder, step 1, note", "nothing is hidden from a single new query", True, bool(last_row.all()))

# %% [markdown]
# ## Cross-attention
#
# Here the target looks at the source: queries come from the decoder, keys and values from the encoder's output. Each
# target position has a weight for each source position. When the text's decoder is about to write "crackers", it has
# read "I love cream", and the key that fits best is that of "crackers". The trained model does just so.

# %%
trace, at = record_pass(model, src_ids, tgt_in_ids), "decoder.layers.0.cross_attention"
show(trace, *(f"{at}.{name}" for name in ("q", "k", "v", "weights", "heads")))
cross, memory = model.decoder.layers[0].cross_attention, trace["encoder.memory"]
asking = trace["decoder.layers.0.cross_attention_add_norm.norm.output"]
made = [(cross.w_q, asking, "q"), (cross.w_k, memory, "k"), (cross.w_v, memory, "v")]
for matrix, origin, name in made:
    side, used = "decoder" if name == "q" else "encoder", trace[f"{at}.{name}_projected"]
    off = float((matrix(origin).detach() - used).abs().max())
    lesson.states("Decoder, step 3", f"{name.upper()} less what comes from the {side}", 0.0, off, within=1e-5)
weights = trace[f"{at}.weights"][0, 0]
place = wanted.index("crackers")
target = tokenizer.to_tokens(src_ids[0])[int(weights[place].argmax())]
print(
    f"having read {' '.join(read[: place + 1])!r} it gives {weights[place].max():.2f} of its attention to {target!r}"
)
lesson.states("Decoder, step 3", "the source word most looked at for 'crackers'", "crackers", target)
best = int(trace["output_projection.logits"][0, place].argmax())
lesson.states("Decoder, step 3", "the word written then", "crackers", tokenizer.to_tokens([best])[0])

# %%
sources = tokenizer.to_tokens(src_ids[0])
panels = [
    ("encoder, untrained, two pads", padding, tokenizer.to_tokens(six[0]), tokenizer.to_tokens(six[0])),
    ("decoder, untrained", causal, read, read),
    ("cross-attention, trained", weights, sources, [f"→ {word}" for word in wanted]),
]
fig, axes = plt.subplots(1, 3, figsize=(10, 3.4))
for ax, (title, values, across, down) in zip(axes, panels, strict=True):
    ax.imshow(values, vmin=0, vmax=1, cmap=share_colours())
    ax.set_xticks(range(len(across)), across, rotation=90)
    ax.set_yticks(range(len(down)), down)
    ax.set(title=title, xlabel="looked at", ylabel="looking")
fig.tight_layout()
plt.show()
plt.close("all")

# %% [markdown]
# ## From vectors to words
#
# A last linear map gives a score, a *logit*, for each entry of the vocabulary. The text reads it as inner products
# of the vector with every word. With tied embeddings (`tie_embeddings`, as in the paper) this is so to the letter:
# the matrix is the embedding. Softmax makes probabilities of the logits and keeps their order.

# %%
show(trace, "decoder.output", "output_projection.logits", "output_projection.probabilities")
output, logits = trace["decoder.output"], trace["output_projection.logits"]
inner = output @ model.tgt_embedding.tokens.weight.detach().T
lesson.states("Decoder, step 5", "logits for each position", (5, tokenizer.size), tuple(logits[0].shape))
off = float((inner - logits).abs().max())
lesson.states("Decoder, step 5", "a logit less the inner product with a word", 0.0, off, within=1e-4)
probabilities = trace["output_projection.probabilities"]
lesson.states("Decoder, step 5", "probabilities sum to", torch.ones(1, 5), probabilities.sum(dim=-1), within=1e-5)
lesson.states("Decoder, step 5", "all in [0, 1]", True, bool(((probabilities >= 0) & (probabilities <= 1)).all()))
rising = probabilities.gather(-1, logits.argsort(dim=-1)).diff() >= 0
lesson.states("Decoder, step 5", "larger logit, larger probability", True, bool(rising.all()))

# %% [markdown]
# ## Sampling
#
# Always taking the most probable word is greedy search; it gives the same answer each time. (The paper keeps the
# four best beginnings instead, *beam search*, which is glassformer's default.) Sampling draws the next word by its
# probability. Since some unlikely words would do harm, the distribution is first filtered: **temperature** sharpens
# it below 1 and flattens it above, **top-k** keeps the k most probable words, **top-p** the fewest that have the
# probability p together. A small example, then the first word of the answer to "I love you":

# %%
example = torch.tensor([0.5, 0.2, 0.15, 0.1, 0.05])
FILTERS = {
    "as it is": {}, "temperature 0.5": {"temperature": 0.5}, "temperature 2": {"temperature": 2.0},
    "top-k 2": {"top_k": 2}, "top-p 0.8": {"top_p": 0.8},
}  # fmt: skip
for name, values in FILTERS.items():
    kept = filter_log_probs(example.log(), DecodeConfig(sample=True, **values)).exp()
    print(f"{name:16}", "  ".join(f"{probability:.3f}" for probability in kept.tolist()))
kept = filter_log_probs(example.log(), DecodeConfig(sample=True, top_k=2)).exp()
lesson.states(
    "Decoder, step 5", "top-k keeps the k words of highest score", [0, 1], kept.nonzero().flatten().tolist()
)

first = next_words("").log()
order = torch.tensor(
    [place for place in first.argsort(descending=True).tolist() if place not in (PAD_ID, BOS_ID)][:5]
)
fig, axes = plt.subplots(1, 5, figsize=(10, 2.6), sharey=True)
for ax, (name, values) in zip(axes, FILTERS.items(), strict=True):
    ax.bar(range(5), filter_log_probs(first, DecodeConfig(sample=True, **values)).exp()[order].tolist())
    ax.set_xticks(range(5), answers.tgt_tokenizer.to_tokens(order.tolist()), rotation=90)
    ax.set_title(name, fontsize=9)
axes[0].set_ylabel("probability of the first word")
fig.tight_layout()
plt.show()
plt.close("all")

# %% [markdown]
# The text's example is a model that greedily answers "I love you too" for ever, and by sampling also finds "I feel
# the same way about you". Two hundred answers under each setting:

# %%
greedy = {answers.translate(["I love you"])[0].text for _ in range(5)}
lesson.states("Decoder, step 5", "what greedy search ever answers", ["I love you too"], list(greedy))
found = {}
for name, values in {**FILTERS, "top-k 1": {"top_k": 1}}.items():
    options = DecodeConfig(sample=True, n_best=200, **values)
    hypotheses = answers.translate(["I love you"], options)[0].hypotheses
    found[name] = Counter(hypothesis.text for hypothesis in hypotheses)
    most = ", ".join(f"{count} {text!r}" for text, count in found[name].most_common(4))
    print(f"{name:16} {len(found[name]):3} different: {most}")
both = ["I feel the same way about you", "I love you too"]
lesson.states("Decoder, step 5", "sampling finds both answers", both, sorted(set(both) & set(found["as it is"])))
lesson.states("Decoder, step 5", "more variety than greedy search", True, len(found["as it is"]) > len(greedy))

# %% [markdown]
# ## Until the sentence is complete
#
# The drawn word joins the sentence and is read in the next step, until the end token `</s>` is drawn. The loop,
# written out with the parts that `Translator` uses:

# %%
options, ids = DecodeConfig(sample=True, top_p=0.9), [BOS_ID]
generator = torch.Generator().manual_seed(3)
with torch.no_grad():
    steps = DecoderSteps(answers.model, torch.tensor([[*answers.src_tokenizer.to_ids("I love you"), EOS_ID]]))
    while ids[-1] != EOS_ID and len(ids) < 20:
        distribution = filter_log_probs(steps.next_log_probs(torch.tensor(ids[-1:])), options)
        ids.append(int(draw_ids(distribution, torch.rand(1, generator=generator, dtype=torch.float64))))
        token = answers.tgt_tokenizer.to_tokens(ids[-1:])[0]
        print(f"drew {token:6} with {distribution[0, ids[-1]].exp():.2f}: {answers.tgt_tokenizer.to_text(ids)}")
lesson.states("Final output", "it ends when the sentence is complete", "</s>", token)

# %% [markdown]
# ## Every choice is a setting
#
# Tokenizer, positions, order of the norm, activation and sampling: each is one value of the configuration, and each
# value works from text to trained model to output. The first model has the settings from the top of this page
# (words, sinusoidal positions, pre-norm, ReLU), but half the width; each of the others differs in one setting. A
# hundred and twenty updates are few, so not all sentences are right yet. Relative, rotary and ALiBi positions live in
# self-attention alone: cross-attention then has no places to count, and repeating takes longer to learn. Losses are
# per token, and so compare between models of one tokenizer. The list is made from the configuration's own.

# %%
SHOWN = {"text": (TextConfig, ("tokenizer",)), "model": (ModelConfig, ("positions", "norm", "activation"))}
ALTERNATIVES = [
    f"{section}.{name}={value}"
    for section, (settings, names) in SHOWN.items()
    for name in names
    for value in settings.choices(name)
    if f"{section}.{name}={value}" not in (*SETTINGS, "model.positions=sinusoidal", "model.activation=relu")
]
narrow = ["model.d_model=32", "model.n_heads=2", "train.max_updates=120", "train.batch_tokens=160", "train.bucket=8"]
short = [pair for pair in echo_pairs if len(pair.src.split()) <= 4][:1000]
found_losses = {}
for setting in ("text.tokenizer=words", *ALTERNATIVES):
    translator, loss = train_on(short, *narrow, setting)
    tokens, text = translator.tgt_tokenizer.size, translator.translate([SENTENCE])[0].text
    print(f"{setting:26} {tokens:3} tokens   loss {loss:.2f}   {text}")
    assert loss < 0.7 * math.log(tokens), f"{setting} learned too little"
    found_losses[setting] = loss
inside = [f"model.positions={kind}" for kind in ModelConfig.choices("positions")
          if not ModelConfig(positions=kind).adds_positions]  # fmt: skip
assert min(found_losses[setting] for setting in inside) > found_losses["text.tokenizer=words"]

# %% [markdown]
# Sampling needs no new training; the options go with each call.

# %%
SAMPLING = ({"beam": 1}, {"beam": 4}, *({"sample": True, **values} for values in FILTERS.values()))
for values in SAMPLING:
    setting = ", ".join(f"decode.{key}={value}" for key, value in values.items())
    print(f"{setting:45} {answers.translate(['I love you'], DecodeConfig(**values))[0].text}")

# %% [markdown]
# **See it live:** in [the living page](../../page.md) you can lift the causal mask, hide a source token and sharpen
# the distribution, and see what the model then writes. `glassformer explore "I love you, too." --open`; behind its
# address, `#decoder.layers.0.cross_attention.weights` leads to what the decoder looks at.
#
# ## Exercises

# %% tags=["exercises"]
lesson.exercise(
    "Probabilities 0.5, 0.2, 0.15, 0.1 and 0.05: how many remain with top-p 0.8, and how probable is the first then?",
    (3, 0.588),
    (
        int((filtered := filter_log_probs(example.log(), DecodeConfig(sample=True, top_p=0.8)).exp()).gt(0).sum()),
        round(float(filtered[0]), 3),
    ),
)
lesson.exercise(
    "And with temperature 0.5: how probable is the first?",
    0.769,
    0.5**2 / sum(share**2 for share in (0.5, 0.2, 0.15, 0.1, 0.05)),
    within=5e-4,
)
lesson.exercise(
    "A target of six tokens: how many of the 36 places of the causal mask are hidden?",
    15,
    int((~causal_mask(6, 6, torch.device("cpu"))).sum()),
)

# %%
lesson.end()
