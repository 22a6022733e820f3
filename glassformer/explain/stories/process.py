"""The stories of what happens round the model: dropout, search and sampling, the loss, the update of the weights."""

from glassformer.explain.stories.entry import Story, Table

_WU = "6.1; Wu et al. 2016, 7"
_NOT_IN_PAPER = "not in the paper"
_ADAM = "5.3; Kingma and Ba 2015"

_DROPOUT: Table = {
    "kept": Story(
        "Elements kept", "In training each element is dropped with probability p.", "m ~ Bernoulli(1 − p)", "5.4"
    ),
    "output": Story(
        "After dropout", "What is kept is divided by 1 − p, so that the mean stays.", "m · x / (1 − p)", "5.4"
    ),
}

_SEARCH: Table = {
    "tgt_in_ids": Story(
        "Read at this step", "The id that each row's decoder reads: <s> first, then what was appended.", "tᵢ", "3.1"
    ),
    "next_log_probs": Story(
        "Log-probability of each next token",
        "The logarithm of the softmax at the last position; <pad> and <s> are never chosen.",
        "log softmax(logits)",
        "3.4",
    ),
    "candidate_log_probs": Story(
        "Best continuations",
        "The sums of the 2·beam best ways to go on from any living hypothesis.",
        "top-k (log P(past) + log P(next))",
        "6.1",
    ),
    "candidate_parents": Story(
        "Their parents", "From which living hypothesis each continues.", "⌊index / vocab⌋", "6.1"
    ),
    "candidate_ids": Story("Their tokens", "The token that each would append.", "index mod vocab", "6.1"),
    "sentences": Story("Sentences on their way", "Which sentences of the batch are searched still.", "rows", "6.1"),
    "limits": Story(
        "Longest outputs", "The most ids that each output may have, </s> included.", "a · n_src + b", "6.1"
    ),
    "last_penalty": Story(
        "Penalty at the limit",
        "What the best a living hypothesis may reach is divided by.",
        "((5 + limit) / 6)^α",
        _WU,
    ),
    "ids": Story("Living hypotheses", "The ids so far, the new one appended, best first.", "[parent; token]", "6.1"),
    "log_probs": Story("Their log-probabilities", "The sum over all their tokens.", "Σ log P", "6.1"),
    "ended": Story("How many have ended", "Hypotheses that came to </s>.", "count", "6.1"),
    "ended_ids": Story("The best that ended", "Padded behind </s>; what has ended is not extended.", "… </s>", "6.1"),
    "ended_log_probs": Story(
        "Their log-probabilities", "The sum over all their tokens, </s> included.", "Σ log P", "6.1"
    ),
    "ended_scores": Story(
        "Their scores",
        "Divided by the length penalty, so that long outputs may win.",
        "Σ log P / ((5 + length) / 6)^α",
        _WU,
    ),
    "done": Story("Done", "Sentences or samples that need no further step.", "no better one can come", "6.1"),
    "rows": Story(
        "Rows kept",
        "Row i of the next step continues this row: cache and memory follow.",
        "row ← rows[i]",
        _NOT_IN_PAPER,
    ),
    "filtered_log_probs": Story(
        "The distribution drawn from",
        "After temperature, top-k, top-p and min-p, where they are set; what they leave out is −∞.",
        "log P′",
        "Holtzman et al. 2020",
    ),
    "uniforms": Story(
        "A random number", "From the seed, the sentence and the sample alone.", "u ~ Uniform[0, 1)", _NOT_IN_PAPER
    ),
    "drawn_ids": Story(
        "The token drawn", "Where the cumulated probabilities pass u.", "min i : Σ_{j ≤ i} P′ > u", _NOT_IN_PAPER
    ),
    "sampled_ids": Story("Samples so far", "The drawn token appended.", "[ids; drawn]", _NOT_IN_PAPER),
    "sampled_log_probs": Story(
        "Their log-probabilities", "By the model's own distribution, not the filtered one.", "Σ log P", _NOT_IN_PAPER
    ),
}

_LOSS: Table = {
    "target_distribution": Story(
        "Smoothed target",
        "1 − ε on the right token, ε spread over the vocabulary.",
        "q = (1 − ε) δ + ε / vocab",
        "5.4",
    ),
    "log_probs": Story(
        "Log-probabilities", "Of every token at every position.", "log p = log softmax(logits)", "5.4"
    ),
    "nll_per_token": Story(
        "Negative log-likelihood", "How surprised the model is by the right token.", "−log p(tgt_out)", "5.4"
    ),
    "per_token": Story("Loss of each token", "Against the smoothed target; zero at padding.", "−Σ q log p", "5.4"),
    "mean": Story("Loss", "The mean over all real target tokens: what training lowers.", "Σ loss / ntokens", "5.4"),
}

_UPDATE: Table = {
    "gradient_norm": Story(
        "Norm of the gradient", "Of all weights together, before clipping.", "‖g‖₂", _NOT_IN_PAPER
    ),
    "rate": Story("Learning rate", "Of this update, from the schedule.", "equation 3", "5.3"),
    "count_before": Story("Updates before", "How many updates the moments have seen.", "t − 1", _ADAM),
    "count": Story("Number of this update", "Adam corrects its moments by it.", "t", _ADAM),
}

_WEIGHT: Table = {
    "gradient": Story("Gradient", "How the loss would change with each weight.", "g = ∂loss / ∂w", "5.3"),
    "clipped_gradient": Story(
        "Clipped gradient",
        "Shortened when all gradients together are too long.",
        "g · min(1, clip / ‖g‖)",
        _NOT_IN_PAPER,
    ),
    "value_before": Story("Weight before", "As the forward pass used it.", "w", _ADAM),
    "first_moment_before": Story("First moment before", "Zero in the first update.", "m", _ADAM),
    "second_moment_before": Story("Second moment before", "Zero in the first update.", "v", _ADAM),
    "first_moment": Story("First moment", "A running mean of the gradient.", "m ← β₁ m + (1 − β₁) g", _ADAM),
    "second_moment": Story("Second moment", "A running mean of its square.", "v ← β₂ v + (1 − β₂) g²", _ADAM),
    "value": Story(
        "Weight after",
        "Moved against the first moment, in steps that the second evens out.",
        "w ← w − rate · (m / (1 − β₁ᵗ)) / (√(v / (1 − β₂ᵗ)) + ε)",
        _ADAM,
    ),
}

PROCESS: dict[str, Table] = {
    "dropout": _DROPOUT,
    "search": _SEARCH,
    "loss": _LOSS,
    "update": _UPDATE,
    "weight": _WEIGHT,
}
