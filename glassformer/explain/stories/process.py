"""The stories of what happens round the model: dropout, the loss, the update of the weights."""

from glassformer.explain.stories.entry import Story, Table
from glassformer.explain.stories.search import SEARCH

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
    "cooldown": Story(
        "Cooldown",
        "What it leaves of the learning rate: all before it, nearly nothing at its end.",
        "c",
        _NOT_IN_PAPER,
    ),
    "rate": Story("Learning rate", "Of this update, from the schedule.", "c · equation 3", "5.3"),
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
    "search": SEARCH,
    "loss": _LOSS,
    "update": _UPDATE,
    "weight": _WEIGHT,
}
