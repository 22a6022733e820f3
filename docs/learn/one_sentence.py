# %% [markdown]
# # One sentence, seven pictures
#
# Fifteen minutes, one sentence, and everything that happens on its way from English to German. Each of the seven
# pictures shows one idea. After each there is a question with a few lines of code: guess first, then look.
#
# Nothing here is drawn by hand. The pictures are the numbers of the model that comes with glassformer, recorded
# while it translates. To run the lesson yourself, type `pip install 'glassformer[plot]'`, start Python or a
# notebook, and begin here:

# %%
import matplotlib.pyplot as plt
import torch

from glassformer import Translator, tracing
from glassformer.explain import walk
from glassformer.explain.recording import attribution

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
# ## 1. A word is a row of numbers
#
# A model computes with numbers, so the sentence is first cut into *tokens*: frequent words and pieces of words,
# 8,000 in all. The mark ▁ stands for the space before a word, and `</s>` ends the sentence. Each token has a row of
# 256 numbers, its *embedding*, which was learned in training.

# %%
walked.plot("src_embedding.embedded")

# %% [markdown]
# Each line of the picture is one token, violet where its numbers are above zero and orange where they are below. A
# single number means nothing to us. What counts is which rows are alike.
#
# **Guess before you look.** Nobody has told the model what the words mean. Among all 8,000 rows, which are most
# like the row of ▁love? And of ▁Monday?

# %% tags=["guess"]
vocabulary = translator.src_tokenizer.to_tokens(range(translator.src_tokenizer.size))
rows = torch.nn.functional.normalize(model.src_embedding.tokens.weight.detach(), dim=-1)
for token in ("▁love", "▁Monday"):
    likeness = rows @ rows[vocabulary.index(token)]  # cosine: 1 is the same direction
    print(token, "is like", [vocabulary[row] for row in likeness.topk(6).indices[1:]])

# %% [markdown]
# Words that occur in the same places end up with similar rows. That is all that the model knows of a meaning when
# it begins to read.
#
# ## 2. Where a word stands
#
# Attention, which comes next, treats a sentence as a bag of words: it has no idea what comes first. So every
# position has a row of its own, and it is added to the row of the token that stands there.

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
for text in (SENTENCE, "The man saw the dog.", "The dog saw the man."):
    print(f"{text:21} {translated_with(no_positions, text)}")

# %% [markdown]
# Our sentence survives, since its words make sense in one order only. The man and the dog do not: without positions
# the two sentences are the same bag of words, and both get the same translation.
#
# ## 3. Words look at one another
#
# Now the encoder reads. In *self-attention* every token asks all tokens of the sentence: how much do you matter to
# me? The answers are weights, one row for each token that asks, and each row adds up to 1. Then each token takes
# the weighted mean of what the others have to say. Four *heads* do this side by side, each with its own questions.
# There are four such layers; this is the second:

# %%
walked.plot("encoder.layers.1.self_attention.weights")

# %% [markdown]
# A row asks, a column answers, and dark means much. Look at head 2: from its third row on there is a dark diagonal,
# one place left of the middle. There each token looks at the one before it. Nobody programmed that: it was useful,
# so it was learned.
#
# **Guess before you look: mask it.** A *mask* hides a token from every head, here and in the decoder. We hide the
# tokens one at a time. Which word is lost each time, and what does the model do about it?

# %% tags=["guess"]
for place, token in enumerate(walked.sentences.src_tokens[0][:5]):

    def hide(mask, place=place):
        mask[..., place] = False  # True = may be looked at
        return mask

    print(f"without {token:6} {translated_with({'src_mask': hide})}")

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
for name, edits in (("with the mask", {}), ("without it", no_mask)):
    with torch.no_grad(), tracing(model, edits, only=""):
        logits = model(batch.src_ids, batch.tgt_in_ids)
    print(f"{name:14}", translator.tgt_tokenizer.to_tokens(logits[0].argmax(-1).tolist()))

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
#
# **Guess before you look: silence a head.** We set the output of one head of this layer to zero, and of one only:
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

# %% [markdown]
# Our sentence does not need any of them: even when the head that looks ahead to *▁too* is silent, the others still
# find the word. But one head kept the model from saying *Ich bin hungrig*. That is good German too, word by word
# what the English says; the usual way to say it depended on a single head.
#
# ## 6. A word takes shape
#
# Each layer adds something to what it was given. We can ask at every stage: if the model had to write now, what
# would it write? This is called the *logit lens*.

# %%
stages = attribution.logit_lens(model, walked.trace)
figure, axes = plt.subplots(figsize=(9, 2.6), layout="constrained")
shown = torch.stack([logits[0].softmax(-1).max(-1).values for logits in stages.values()])
axes.imshow(shown, cmap="Purples", vmin=0, vmax=1.6, aspect="auto")
for row, logits in enumerate(stages.values()):
    for column, token in enumerate(translator.tgt_tokenizer.to_tokens(logits[0].argmax(-1).tolist())):
        axes.text(column, row, f"{token}\n{shown[row, column]:.2f}", ha="center", va="center")
axes.set_yticks(range(len(stages)), ["what it reads", "after layer 0", "after layer 1"])
axes.set_xticks([])
plt.show()

# %% [markdown]
# A column is a step, from left to right. At first there is just the token that was read. After one layer the model
# has begun to turn from reading to writing: *▁dich* is already there in the third column, and in the fourth it has
# only a vague *▁ja*. After the second layer all six words stand.
#
# **Guess before you look.** A layer has three parts: it looks at its own words, it looks at the English words, and
# a *feed-forward* network works on each position by itself. We take away each part in both layers. Which one can
# the model spare most easily?

# %% tags=["guess"]
for part in ("self_attention", "cross_attention", "feed_forward"):
    without = translated_with({f"decoder.layers.?.{part}.output": torch.zeros_like})
    print(f"without {part:16} {without}")

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
axes.set_xlim(0, 1)
plt.show()

# %% [markdown]
# *▁dich* is by far the likeliest, but *▁Sie* and *▁euch* are right as well: English *you* says neither how many
# people are loved nor how well they are known. The word is written, read in turn, and all of this happens again
# until `</s>` is the likeliest.
#
# **Guess before you look: the next token.** We write the first word ourselves and the model has to continue. How
# does it finish *Auch ...*, *Ich habe ...* and *Ich mag ...*?

# %% tags=["guess"]
starts = ["Auch", "Ich habe", "Ich mag"]
for translation in translator.translate([SENTENCE] * 3, prefixes=starts):
    print(translation.text)

# %% [markdown]
# The first says *auch* twice; the other two are what a German might well say. The model has not learned a
# translation by heart. It has learned which word comes next.
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
# ## Where to go from here
#
# - `glassformer explore "I love you, too." --open` opens this sentence in a browser: every number, with
#   the sum that made it.
# - [Every step](../../steps.md) has its equation and its section in the paper.
# - [Interpretability](../../interpretability.md) continues with patching, attribution and gradients.
# - [The other lessons](../index.md) check five well-known texts on the Transformer and the paper, number by number.
