# %% [markdown]
# # One matrix, three uses, and the square root of d_model
#
# *Attention Is All You Need*, section 3.4, says in two sentences something that costs every reader of code some
# thought: one matrix serves as source embedding, as target embedding and as the last linear map, and where it embeds,
# it is multiplied by the square root of `d_model`. The paper gives no reason for the factor. Here we measure what
# the shared matrix saves, what its two jobs ask of it, and what goes wrong without the factor.
#
# After this lesson you can say what one matrix in three places saves and costs, why it is multiplied by √d_model
# where it embeds, and what a tied model guesses before it has learned anything.
#
# What the paper states and what comes out again is folded with the code that holds it.

# %%
import math

import matplotlib.pyplot as plt
import torch
from lesson import Lesson

from glassformer import GlassformerError, ModelConfig, Transformer, tracing
from glassformer.explain import symbols
from glassformer.training.objective.loss import smoothed_loss

torch.manual_seed(0)
lesson = Lesson("paper 3.4", "Attention Is All You Need, section 3.4: Embeddings and Softmax")

# %% [markdown]
# ## One matrix
#
# An embedding is a table: row number `id` is the vector of the token `id`. The last linear map, which makes a number
# for each token of the vocabulary (a *logit*), is a table of the same shape: its row number `id` is multiplied with
# the decoder's output, and the larger the product, the likelier the token. Both have `vocab` rows and `d_model`
# columns, so one matrix can be both.
#
# We build the paper's base model without any numbers in it (on PyTorch's "meta" device, which knows shapes only) and
# look at which parameter each of the three places holds.

# %%


def parameters_of(**changes) -> int:
    """Parameters of the base model with some settings changed; a shared matrix counts once."""
    with torch.device("meta"):
        model = Transformer(ModelConfig.base(**changes))
    return sum(parameter.numel() for parameter in model.parameters())


with torch.device("meta"):
    base = Transformer(ModelConfig.base())
places = {
    "source embedding": base.src_embedding.tokens.weight,
    "target embedding": base.tgt_embedding.tokens.weight,
    "last linear map": base.output_projection.linear.weight,
}
for name, matrix in places.items():
    print(f"{name:17} (vocab, d_model) = {tuple(matrix.shape)}")
lesson.states("3.4", "matrices in these three places", 1, len({id(matrix) for matrix in places.values()}))
lesson.states("3.4 and 3.1", "width of an embedding in the base model", 512, base.src_embedding.tokens.embedding_dim)

counts = {tie: parameters_of(tie_embeddings=tie) for tie in ("all", "target", "none")}
for tie, count in counts.items():
    print(f"tie_embeddings = {tie!r:8} {count:11,} parameters")
saved = 1 - counts["all"] / counts["none"]
print(f"sharing saves {saved:.1%} of the untied model")

# %% [markdown]
# With a vocabulary of 37,000 (section 5.1) more than half of the untied model are these three matrices. Sharing
# removes two of them.

# %%
one = base.src_embedding.tokens.weight.numel()
assert 3 * one > counts["none"] / 2
assert counts["none"] - counts["all"] == 2 * one

# %% [markdown]
# It has a price: source and target must speak one vocabulary, numbered once. With two different sizes there is no
# such matrix, and the model says so:

# %%
try:
    ModelConfig.base(src_vocab=37_000, tgt_vocab=32_000)
except GlassformerError as error:
    print(error)

# %% [markdown]
# ## The multiplication
#
# Now a real model with numbers. Each step of the way from ids to vectors has a name; a trace records it. The axes on
# the left are the symbols of the walkthroughs, on the right stand our sizes.

# %%
WIDTH, VOCAB = 512, 1000
config = ModelConfig.base(src_vocab=VOCAB, tgt_vocab=VOCAB, n_encoder_layers=2, n_decoder_layers=2)
model = Transformer(config).eval()
src_ids = torch.randint(4, VOCAB, (4, 30))
tgt_ids = torch.randint(4, VOCAB, (4, 30))
with torch.no_grad(), tracing(model) as trace:
    logits = model(src_ids, tgt_ids)
for step in trace.select("src_embedding.*"):
    length = step.value.norm(dim=-1).mean()
    print(f"{step.name:17} ({', '.join(symbols(step)):25}) = {step.shape!s:13} mean length of a vector {length:6.2f}")

embedded, scaled = trace["src_embedding.embedded"], trace["src_embedding.scaled"]
factor = float(scaled.norm() / embedded.norm())
lesson.states("3.4", "embeddings are multiplied by √d_model", math.sqrt(config.d_model), factor, within=1e-4)

# %% [markdown]
# The vectors of the table start with length about 1, which is our choice: the paper does not say how its weights
# start. Position vectors cannot be chosen. Each is made of `d_model / 2` pairs of a sine and a cosine of the same
# angle, and sin² + cos² = 1, so that its length is √(d_model / 2) at every position: 16 when `d_model` is 512.
#
# Without the factor, then, the position would be 16 times as long as the token. With it, the token is √2 times as
# long as the position.

# %%
positions = trace["src_embedding.position_vectors"]
print(f"position vectors: from {positions.norm(dim=-1).min():.4f} to {positions.norm(dim=-1).max():.4f}")
print(f"√(d_model / 2)  : {math.sqrt(WIDTH / 2):.4f}")
print(f"position / token without the factor: {positions.norm(dim=-1).mean() / embedded.norm(dim=-1).mean():.2f}")
print(f"position / token with the factor   : {positions.norm(dim=-1).mean() / scaled.norm(dim=-1).mean():.2f}")

fig, axes = plt.subplots(figsize=(7, 3))
kinds = ["token, as in the table", "position", "token times √d_model"]
values = [embedded.norm(dim=-1).flatten(), positions.norm(dim=-1), scaled.norm(dim=-1).flatten()]
axes.boxplot(values, orientation="horizontal", widths=0.6)
axes.set_yticks([1, 2, 3], kinds)
axes.set_xlabel("length of the vector")
axes.set_title("What is added to what, d_model = 512")
fig.tight_layout()
plt.show()
plt.close("all")
token, place, whole = (float(length.mean()) for length in values)
assert abs(place - 16) < 1e-3
assert abs(place / token - 16) < 1
assert abs(whole / place - math.sqrt(2)) < 0.1

# %% [markdown]
# What does that do to what the first layer sees? Take two words, each at two positions ten apart. A layer that wants
# to know the word should find the same word more alike than two words at the same place. We measure likeness by the
# cosine of the angle between the vectors: 1 for the same direction, 0 for nothing in common.

# %%


def likeness(scale: float) -> tuple[float, float]:
    """Mean cosine of the same word ten places on, and of two words at the same place."""
    vectors = embedded * scale + positions
    cosine = torch.nn.functional.cosine_similarity
    same_word = cosine(embedded[:, :20] * scale + positions[10:], vectors[:, :20], dim=-1)
    same_place = cosine(vectors[:1], vectors[1:], dim=-1)
    return float(same_word.mean()), float(same_place.mean())


for name, scale in (("without the factor", 1.0), ("with the factor", math.sqrt(WIDTH))):
    same_word, same_place = likeness(scale)
    assert (same_place > 0.95) if scale == 1.0 else (same_word > same_place)
    print(f"{name:19} the same word, ten places on: {same_word:.2f}   another word, same place: {same_place:.2f}")

# %% [markdown]
# Without the factor two different words at one place are all but the same vector. With it, the word counts for more
# than the place.
#
# ## Why not simply start with longer vectors?
#
# Because the same rows are also the last linear map. There they are multiplied with the decoder's output, which layer
# norm has just brought to length √d_model. With rows √d_model times as long every logit is √d_model times as large.
# We try both: the same model, the same first input, but the second has the factor inside its table and none outside.
# Without any knowledge a loss of ln(vocab) is possible: every token as likely as the next.


# %%
def first_loss(model: Transformer) -> tuple[float, float]:
    """Spread of the logits of the untrained model, and its loss per token, on targets drawn at random."""
    targets = torch.randint(4, VOCAB, tgt_ids.shape)
    with torch.no_grad():
        logits = model(src_ids, tgt_ids)
        loss, _, tokens = smoothed_loss(logits, targets, config.pad_id, 0.0)
    return float(logits.std()), float(loss) / tokens


long_rows = Transformer(ModelConfig.from_mapping({**config.to_mapping(), "scale_embedding": False})).eval()
long_rows.load_state_dict(model.state_dict())
with torch.no_grad():
    long_rows.tgt_embedding.tokens.weight.mul_(math.sqrt(WIDTH))  # one matrix: this is the source's and the output's
    assert torch.equal(long_rows.src_embedding(src_ids), model.src_embedding(src_ids))
nothing_known, firsts = math.log(VOCAB), {}
print(f"length of the decoder's output vectors: {trace['decoder.output'].norm(dim=-1).mean():.2f}")
for name, candidate in (("factor outside, as in the paper", model), ("factor inside the table", long_rows)):
    spread, firsts[name] = first_loss(candidate)
    print(
        f"{name:32} logits spread by {spread:5.2f}   first loss {firsts[name]:7.2f}   ln(vocab) = {nothing_known:.2f}"
    )
outside, inside = firsts.values()
assert nothing_known + 1 < outside < inside / 5

# %% [markdown]
# With long rows the untrained model is wrong with great confidence. But look at the first line: even as in the paper
# the loss is well above that of knowing nothing. So the first guess is not uniform. What does the untrained model
# guess?
#
# **Guess before you look.** It has learned nothing. Which token does it hold for the likeliest next one?

# %% tags=["guess"]
with torch.no_grad():
    shares = logits.softmax(-1)
    own = shares.gather(-1, tgt_ids[..., None])[..., 0]
    untied_config = ModelConfig.from_mapping({**config.to_mapping(), "tie_embeddings": "none"})
    torch.manual_seed(0)
    untied = Transformer(untied_config).eval()
    own_untied = untied(src_ids, tgt_ids).softmax(-1).gather(-1, tgt_ids[..., None])
print(f"probability of the very token that was just read: {own.mean():.0%} on average, and the likeliest of all")
print(f"with a matrix of its own for the last map: {own_untied.mean():.2%}; all alike would be {1 / VOCAB:.2%}")
assert round(100 * float(own.mean())) == 83
assert torch.equal(shares.argmax(-1), tgt_ids)
assert own_untied.mean() < 0.01

# %% [markdown]
# The token that it has just read. Residual connections carry the read token's row through all layers to the end;
# there it is multiplied with every row, and with none does it agree as much as with itself. An untrained tied model
# of this size, 2 + 2 layers, repeats what it reads, with 83 %; one of 6 + 6, also with norms behind the residual
# connections, does not (0.3 %). Where it does, the first thing it has to learn is to stop that: this is the price of
# tying, paid in the first updates.
#
# So the two jobs ask for two lengths: about √d_model where the matrix embeds, about 1 where it answers. The factor
# lets one matrix have both.
#
# ## Two sources of gradient
#
# A shared matrix is also taught from two sides. As an embedding only the rows of tokens that occur get a gradient; as
# the last linear map every row does, because raising one probability lowers all others. We compute both gradients
# for one sentence: once with the matrix tied, once with three copies.


# %%
def rows_taught(tie: str) -> dict[str, int]:
    """How many rows of each matrix one sentence's loss has anything to say to."""
    torch.manual_seed(0)
    settings = {**config.to_mapping(), "tie_embeddings": tie, "n_encoder_layers": 1, "n_decoder_layers": 1}
    candidate = Transformer(ModelConfig.from_mapping(settings)).eval()
    source, target = torch.tensor([[10, 11, 12, 2]]), torch.tensor([[1, 20, 21]])
    loss, _, _ = smoothed_loss(candidate(source, target), torch.tensor([[20, 21, 2]]), config.pad_id, 0.0)
    loss.backward()
    matrices = {
        "source": candidate.src_embedding.tokens.weight,
        "target": candidate.tgt_embedding.tokens.weight,
        "last map": candidate.output_projection.linear.weight,
    }
    return {name: int((matrix.grad.abs().sum(dim=1) > 0).sum()) for name, matrix in matrices.items()}


taught = {tie: rows_taught(tie) for tie in ("none", "all")}
for tie, rows in taught.items():
    print(f"tie_embeddings = {tie!r:7} rows with a gradient: {rows}")
assert taught["none"] == {"source": 4, "target": 3, "last map": VOCAB}
assert set(taught["all"].values()) == {VOCAB}

# %% [markdown]
# Untied, four source tokens and three target tokens teach four and three rows, and the rest of both tables learns
# nothing from this sentence. Tied, every row learns from every sentence: a rare word's vector is at least pushed away
# from where it does not belong.

# %% [markdown]
# **See it live:** [the living page](../../page.md) shows the row of each token, the factor and the sum with its
# position. `glassformer explore "I love you, too." --open`; behind its address, `#src_embedding.scaled`.
#
# ## Exercises

# %% tags=["exercises"]
lesson.exercise(
    "A vocabulary of 8,000 and d_model 256: how many parameters does sharing one matrix in three places save?",
    4_096_000,
    parameters_of(src_vocab=8_000, tgt_vocab=8_000, d_model=256, tie_embeddings="none")
    - parameters_of(src_vocab=8_000, tgt_vocab=8_000, d_model=256),
)
lesson.exercise(
    "How long is every position's vector when d_model is 128?", 8.0,
    float(Transformer(ModelConfig.tiny(max_length=8)).src_embedding.positions(torch.arange(8)).norm(dim=-1).mean()),
    within=1e-4,
)  # fmt: skip
lesson.exercise(
    "One sentence of four source and three target tokens: how many rows of a tied matrix of 1,000 get a gradient?",
    1_000,
    taught["all"]["source"],
)

# %%
lesson.end()
