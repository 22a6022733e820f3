# %% [markdown]
# # One sentence, seven pictures
#
# Fifteen minutes, one sentence, and everything that happens on its way from English to German. Each of the seven
# pictures shows one idea. After each there is a question with a few lines of code: guess first, then look.
#
# After this lesson you can say what an embedding, a query, a key and a value are, compute an attention weight by
# hand, read a picture of a head, and predict what a model does when a part of it is taken away.
#
# The seven pictures are the numbers of the model that comes with glassformer, recorded while it translates. To run
# the lesson yourself, type `pip install '.[plot]'` in the clone, start Python or a notebook, and begin here:

# %%
import math

import matplotlib.pyplot as plt
import torch

from glassformer import Translator, tracing
from glassformer.explain import attribution, walk
from glassformer.trace.palette import share_colours

plt.rcParams["figure.dpi"] = 150
translator = Translator.load()
model = translator.model
SENTENCE = "I love you, too."
print(translator.translate([SENTENCE])[0].text)

# %% [markdown]
# `walk` translates the sentence once more and keeps every tensor on the way, with a name, its axes and its tokens:

# %%
walked = walk(translator, [SENTENCE])
print(walked)


# %% [markdown]
# We will also change the model while it works. `translated_with` takes *edits*: the name of a tensor, and a
# function that gets its value and returns another. They act during this one translation; the model stays as it is.


# %%
def translated_with(edits, text=SENTENCE):
    with tracing(model, edits, only=""):  # only="": record nothing
        return translator.translate([text])[0].text


# %% [markdown]
# Where are we going? This is figure 1 of the paper, for our model: the source is read on the left, the translation is
# written on the right, and what a box gives goes up into the next. The numbers are those of the pictures.

# %% tags=["figure"]
config = model.config
figure, axes = plt.subplots(figsize=(7, 5), layout="constrained")
axes.set(xlim=(0, 10), ylim=(0.2, 10.4))
axes.axis("off")
BOXES = (  # left edge, bottom, words
    (0.6, 1.4, "1 embedding of the source\n2 + positions"),
    (0.6, 4.2, "3 self-attention"),
    (0.6, 5.4, "feed-forward"),
    (6.0, 1.4, "1 embedding of what is written\n2 + positions"),
    (6.0, 4.2, "4 masked self-attention"),
    (6.0, 5.4, "5 cross-attention"),
    (6.0, 6.6, "6 feed-forward"),
    (6.0, 8.6, "7 linear and softmax"),
)
for left, bottom, words in BOXES:
    axes.add_patch(plt.Rectangle((left, bottom), 3.4, 0.9, facecolor="lavender", edgecolor="rebeccapurple"))
    axes.text(left + 1.7, bottom + 0.45, words, ha="center", va="center", fontsize=9)
for left, height, layers in ((0.3, 3.2, config.n_encoder_layers), (5.7, 4.4, config.n_decoder_layers)):
    axes.add_patch(plt.Rectangle((left, 3.6), 4.0, height, fill=False, linestyle="--", edgecolor="gray"))
    axes.text(left + 0.1, 3.75, f"{layers} layers", fontsize=8, color="gray")
ARROWS = (
    ((2.3, 0.9), (2.3, 1.4)), ((2.3, 2.3), (2.3, 4.2)), ((2.3, 5.1), (2.3, 5.4)), ((7.7, 0.9), (7.7, 1.4)),
    ((7.7, 2.3), (7.7, 4.2)), ((7.7, 5.1), (7.7, 5.4)), ((7.7, 6.3), (7.7, 6.6)), ((7.7, 7.5), (7.7, 8.6)),
    ((7.7, 9.5), (7.7, 9.9)), ((4.0, 5.85), (6.0, 5.85)),
)  # fmt: skip
for tail, head in ARROWS:
    axes.annotate("", head, tail, arrowprops={"arrowstyle": "->", "color": "gray"})
axes.text(2.3, 0.6, SENTENCE, ha="center", fontsize=9)
axes.text(7.7, 0.6, "<s> Ich liebe dich auch.", ha="center", fontsize=9)
axes.text(7.7, 10.0, "the next token", ha="center", fontsize=9)
plt.show()

# %% [markdown]
# ## 1. A word is a row of numbers
#
# A model computes with numbers, so the sentence is first cut into *tokens*: frequent words and pieces of words,
# 8,000 in all. The mark ▁ stands for the space before a word, and `</s>` ends the sentence. Each token has a row of
# 256 numbers, its *embedding*, which was learned in training.

# %%
walked.plot("src_embedding.embedded")

# %% [markdown]
# Each line of the picture is one token, orange where its numbers are above zero and blue where they are below. A
# single number means nothing to us. What counts is which rows are alike.
#
# **Guess before you look.** Nobody has told the model what the words mean. Among all 8,000 rows, which are most
# like the row of ▁love? And of ▁morning?

# %% tags=["guess"]
vocabulary = translator.src_tokenizer.to_tokens(range(translator.src_tokenizer.size))
rows = torch.nn.functional.normalize(model.src_embedding.tokens.weight.detach(), dim=-1)
found = {}
for token, expected in (("▁love", {"▁loves", "▁loved"}), ("▁morning", {"▁afternoon", "▁evening", "▁day"})):
    likeness = rows @ rows[vocabulary.index(token)]  # cosine: 1 is the same direction
    found[token] = {vocabulary[row]: round(float(likeness[row]), 2) for row in likeness.topk(6).indices[1:]}
    print(token, "is like", found[token])
    assert expected <= set(found[token])
assert "▁shekels" in found["▁love"]

# %% [markdown]
# Words that occur in the same places end up with similar rows: the forms of a verb, the times of a day. What comes
# after them is less alike, and may be chance, as *shekels* with *love*. That is all that the model knows of a meaning
# when it begins to read.
#
# ## 2. Where a word stands
#
# Attention, which comes next, treats a sentence as a bag of words: it has no idea what comes first. So every
# position has a row of its own, and it is added to the row of the token at that position.

# %%
walked.plot("src_embedding.position_vectors")

# %% [markdown]
# These rows are not learned. They are waves, fast ones on the left and slow ones on the right, as on a clock with
# 128 hands: no two positions show the same time (section 3.5 of the paper).
#
# **Guess before you look.** We set the position rows of the English side to zero. What becomes of our sentence? And
# of two sentences that differ in nothing but their order?

# %% tags=["guess"]
no_positions = {"src_embedding.position_vectors": torch.zeros_like}
orders = {
    text: translated_with(no_positions, text) for text in (SENTENCE, "The man saw the dog.", "The dog saw the man.")
}
for text, translation in orders.items():
    print(f"{text:21} {translation}")
ours, *bags = orders.values()
assert ours == "Ich liebe dich auch."
assert len(set(bags)) == 1

# %% [markdown]
# Our sentence survives, since its words make sense in one order only. The man and the dog do not: without positions
# the two sentences are the same bag of words, and both get the same translation.
#
# ## 3. Words look at one another
#
# Now the encoder reads. In *self-attention* every token asks all tokens of the sentence: how much do you matter to
# me? For this each token has three vectors, made from its row by three learned matrices: a **query**, what it looks
# for; a **key**, what it can be found by; and a **value**, what it has to say. The better a query and a key fit, the
# larger the weight; each row of weights adds up to 1. Then each token takes the mean of all values, with these
# weights. Four *heads* do this side by side, each with matrices of its own. There are four such layers; this is the
# second:

# %%
walked.plot("encoder.layers.1.self_attention.weights")

# %% [markdown]
# A row asks (query), a column answers (key), and dark means much. Look at head 2: from its third row on there is a
# dark diagonal, one place left of the middle. There each token looks at the one before it. Nobody programmed that: it
# was useful, so it was learned.
#
# **One weight by hand.** How much does *▁you* look at *▁love* in head 2? Multiply the query of *▁you* with each key,
# number by number, and add up; divide by √64 = 8, for queries and keys have 64 numbers; raise e to each, and take the
# share of *▁love* in the sum.

# %%
at = "encoder.layers.1.self_attention."
tokens = walked.sentences.src_tokens[0]
query, keys = walked[at + "q"].value[0, 2, tokens.index("▁you")], walked[at + "k"].value[0, 2]
scores = [sum(a * b for a, b in zip(query.tolist(), key.tolist(), strict=True)) / math.sqrt(64) for key in keys]
powers = [math.exp(score) for score in scores]
for token, score, power in zip(tokens, scores, powers, strict=True):
    print(f"{token:6} score {score:6.2f}   e to it {power:8.3f}   weight {power / sum(powers):.3f}")
weights = walked[at + "weights"].value[0, 2]
assert abs(powers[tokens.index("▁love")] / sum(powers) - weights[tokens.index("▁you"), tokens.index("▁love")]) < 1e-4
before = [int(weights[row].argmax()) == row - 1 for row in range(2, len(tokens))]
assert all(before), "from its third row on, each token looks at the one before it"

# %% [markdown]
# **Guess before you look: mask it.** A *mask* hides a token from every head, here and in the decoder. We hide the
# tokens one at a time. Which word is lost each time, and what does the model do about it?

# %% tags=["guess"]
hidden = {}
for place, token in enumerate(tokens[:5]):

    def hide(mask, place=place):
        mask[..., place] = False  # True = may be looked at
        return mask

    hidden[token] = translated_with({"src_mask": hide})
    print(f"without {token:6} {hidden[token]}")
assert hidden[","] == "Ich liebe dich auch."
assert hidden["▁too"].startswith("Ich liebe dich,")

# %% [markdown]
# Hide a word and its translation goes; hide the comma and nothing happens. In the fifth line the model writes a comma
# and one word too many: it still sees the comma, and something should follow a comma.
#
# ## 4. The future is hidden
#
# The decoder writes the German sentence from left to right. It reads what it has written so far, with
# self-attention like the encoder's, but for one difference: it must not look at words that come later, because when
# it translates they do not exist yet.

# %%
walked.plot("decoder.layers.1.self_attention.weights")

# %% [markdown]
# The upper right of every head is empty. That is the *causal mask*. It is what makes training fast, too: all
# positions of a known sentence can be learned at the same time, and none can copy its answer from the next.
#
# **Guess before you look.** We give the decoder the finished sentence *Ich liebe dich auch.* and take the mask
# away, so that every position sees all of it. Do its predictions get better, since it could just read the answers?

# %% tags=["guess"]
batch = walked.sentences.batch
no_mask = {"causal_mask": torch.ones_like}  # True = may be looked at
right = []
for name, edits in (("with the mask", {}), ("without it", no_mask)):
    with torch.no_grad(), tracing(model, edits, only=""):
        logits = model(batch.src_ids, batch.tgt_in_ids)
    print(f"{name:14}", translator.tgt_tokenizer.to_tokens(logits[0].argmax(-1).tolist()))
    right.append(int((logits[0].argmax(-1) == batch.tgt_out_ids[0]).sum()))
assert right[0] > right[1], "they get worse"

# %% [markdown]
# They get worse. The model never saw a later word in training, so it never learned to copy one, and what it sees
# there only confuses it.
#
# ## 5. Reading while writing
#
# Between the two languages stands *cross-attention*: at each step the decoder asks the English tokens which of them
# matters for the word that it is about to write.

# %%
walked.plot("decoder.layers.1.cross_attention.weights")

# %% [markdown]
# Read a row as a sentence: having read *Ich*, about to write *▁liebe*, all four heads look at *▁love*. Head 1 is
# different one line below: when *▁dich* is due, it already looks at *▁too*.

# %%
looks = walked["decoder.layers.1.cross_attention.weights"].value[0]
assert [tokens[place] for place in looks[:, 1].argmax(-1)] == ["▁love"] * 4
assert tokens[looks[1, 2].argmax()] == "▁too"

# %% [markdown]
# **Guess before you look: switch off a head.** We set the output of one head of this layer to zero, and of one only:
# in our sentence, and in *I am hungry*, which a German says with another verb: *Ich habe Hunger*, I have hunger.
# Four heads, eight translations: which ones change, and how?

# %% tags=["guess"]
for head in range(model.config.n_heads):

    def silence(heads, head=head):
        heads[:, head] = 0  # the axes are: batch heads query d_v
        return heads

    edits = {"decoder.layers.1.cross_attention.heads": silence}
    without = [translated_with(edits, text) for text in (SENTENCE, "I am hungry.")]
    print(f"without head {head}  {without[0]}  {without[1]}")
    assert without == ["Ich liebe dich auch.", "Ich bin hungrig." if head == 3 else "Ich habe Hunger."]

# %% [markdown]
# Our sentence stays the same without any of them: even when the head that looks ahead to *▁too* is silent, the others
# find it. But one head kept the model from saying *Ich bin hungrig*. That is good German, word by word what the
# English says; the usual way to say it depended on a single head.
#
# ## 6. A word takes shape
#
# Each layer adds something to what it was given. We can ask at every stage: if the model had to write now, what
# would it write? This is called the *logit lens*.

# %%
stages = attribution.logit_lens(model, walked.trace)
figure, axes = plt.subplots(figsize=(9, 2.6), layout="constrained")
shown = torch.stack([logits[0].softmax(-1).max(-1).values for logits in stages.values()])
axes.imshow(shown, cmap=share_colours(), vmin=0, vmax=1.6, aspect="auto")
for row, logits in enumerate(stages.values()):
    for column, token in enumerate(translator.tgt_tokenizer.to_tokens(logits[0].argmax(-1).tolist())):
        axes.text(column, row, f"{token}\n{shown[row, column]:.2f}", ha="center", va="center")
axes.set_yticks(range(len(stages)), ["what it reads", "after layer 0", "after layer 1"])
axes.set_xticks(range(shown.shape[1]), walked.sentences.tgt_in_tokens[0])
axes.set(xlabel="tgt: the token that is read", ylabel="stage")
plt.show()
first, second, last = (translator.tgt_tokenizer.to_tokens(one[0].argmax(-1).tolist()) for one in stages.values())
assert first == list(walked.sentences.tgt_in_tokens[0])
assert second == ["<s>", "Ich", "▁dich", "▁ja", "▁einmal", "</s>"]
assert last == list(walked.sentences.tgt_out_tokens[0])

# %% [markdown]
# A column is a step, from left to right. At first there is just the token that was read. After one layer the model
# has begun to turn from reading to writing: in two columns the token that was read still stands, in two it has *▁ja*
# and *▁einmal*, which could follow as well, and in two the right next token. After the second layer all six stand.
#
# **Guess before you look.** A layer has three parts: it looks at its own words, it looks at the English words, and
# a *feed-forward* network works on each position by itself. We take away each part in both layers. Which one can
# the model spare most easily?

# %% tags=["guess"]
for part in ("self_attention", "cross_attention", "feed_forward"):
    without = translated_with({f"decoder.layers.?.{part}.output": torch.zeros_like})
    print(f"without {part:16} {without}")
    assert without != "Ich liebe dich auch.", f"it can spare {part}"
    stammers = {"self_attention": "ich", "feed_forward": "auch", "cross_attention": ""}[part]
    assert without.lower().replace(".", "").split().count(stammers) > 1 or "liebe" not in without

# %% [markdown]
# Without its own words it loses track of what it has said. Without the English words it writes a German sentence of
# its own invention. Without the feed-forward networks it stammers. It can spare none of them.
#
# ## 7. The next word
#
# At the end there are 8,000 numbers, one for each token, and *softmax* turns them into probabilities. Here is the
# choice after *Ich liebe*:

# %%
best = walked["output_projection.probabilities"].value[0, 2].topk(8)
figure, axes = plt.subplots(figsize=(6, 2.6), layout="constrained")
words = translator.tgt_tokenizer.to_tokens(best.indices.tolist())
bars = axes.barh(words, best.values, color="rebeccapurple")
axes.bar_label(bars, fmt="%.3f", padding=3)
axes.invert_yaxis()
axes.set(xlim=(0, 1), xlabel="probability", ylabel="vocab: the likeliest of 8,000")
plt.show()
assert words[0] == "▁dich"
assert best.values[0] > 5 * best.values[1], "by far"
assert {"▁Sie", "▁euch"} <= set(words)

# %% [markdown]
# *▁dich* is by far the likeliest, but *▁Sie* and *▁euch* are right as well: English *you* says neither how many
# people are loved nor how well they are known. The word is written, read in turn, and all of this happens again
# until `</s>` is the likeliest.
#
# **Guess before you look: the next token.** We write the first word ourselves and the model has to continue. How
# does it finish *Auch ...*, *Ich habe ...* and *Ich mag ...*?

# %% tags=["guess"]
starts = ["Auch", "Ich habe", "Ich mag"]
finished = [translation.text for translation in translator.translate([SENTENCE] * 3, prefixes=starts)]
print("\n".join(finished))
assert finished == ["Auch ich liebe dich.", "Ich habe dich auch lieb.", "Ich mag dich auch."]

# %% [markdown]
# All three are good German, and after *Auch* the model does not say *auch* again. It has not learned a translation by
# heart. It has learned which word comes next, wherever we begin; where we lead it to a place that it hardly knows,
# the next word may also be a wrong one.
#
# ## All of it in six lines
#
# What you have seen is the whole algorithm. Encode once, then write one token after the other:

# %%
memory, mask = model.encode(batch.src_ids)
ids = [model.config.bos_id]
while ids[-1] != model.config.eos_id:
    logits = model.decode(torch.tensor([ids]), memory, mask)
    ids.append(int(logits[0, -1].argmax()))
print(translator.tgt_tokenizer.to_text(ids[1:-1]))

# %% [markdown]
# ## Exercises
#
# 1. Head 2 of the picture in part 3, now for *The dog saw the man.* How many of its words look most at the word
#    before them?

# %% tags=["guess"]
other = walk(translator, ["The dog saw the man."], only=at + "weights")[at + "weights"].value[0, 2]
looking_back = sum(int(other[row].argmax()) == row - 1 for row in range(1, 5))
print(f"{looking_back} of the 4 words that have one before them")
assert 2 <= looking_back <= 4

# %% [markdown]
# 2. A head gives two keys the scores 3 and 1, and all others are hidden. What are the two weights?

# %% tags=["guess"]
pair = torch.tensor([3.0, 1.0]).softmax(0)
print(f"{pair[0]:.3f} and {pair[1]:.3f}: e squared is 7.4, so the first weight is 7.4 times the second")
assert round(float(pair[0] / pair[1]), 1) == 7.4

# %% [markdown]
# 3. How many numbers has the table of embeddings, and how many of them does our sentence look up?

# %% tags=["guess"]
table = model.src_embedding.tokens.weight
looked_up = walked["src_embedding.embedded"].value.numel()
print(f"{table.numel():,} numbers; {len(tokens)} rows of {table.shape[1]} are looked up, {looked_up:,} numbers")
assert table.numel() == 8_000 * 256

# %% [markdown]
# ## Where to go from here
#
# - **See it live:** `glassformer explore "I love you, too." --open` opens this sentence in a browser, in
#   [the living page](../../page.md): every number, with the sum that made it. Behind its address,
#   `#encoder.layers.1.self_attention.weights` leads to the picture of part 3.
# - [Build it yourself](build_it_yourself.md): the same from an empty file.
# - [Every step](../../steps.md) has its equation and its section in the paper.
# - [Interpretability](../../interpretability.md) continues with patching, attribution and gradients.
# - [The other lessons](../index.md) check five well-known texts on the Transformer and the paper, number by number.
