"""The stories of search and sampling: what was read, what may follow, what is kept and why, what is drawn."""

from glassformer.explain.stories.entry import Story, Table

_WU = "6.1; Wu et al. 2016, 7"
_COVERAGE = "Wu et al. 2016, 7"
_NOT_IN_PAPER = "not in the paper"

SEARCH: Table = {
    "tgt_in_ids": Story(
        "Read at this step", "The id that each row's decoder reads: <s> first, then what was appended.", "tᵢ", "3.1"
    ),
    "next_log_probs": Story(
        "Log-probability of each next token",
        "The logarithm of the softmax at the last position; <pad> and <s> are never chosen.",
        "log softmax(logits)",
        "3.4",
    ),
    "ruled_log_probs": Story(
        "What the rules leave",
        "What was written before costs more; what repeats an n-gram, ends too early or breaks a demand is −∞.",
        "θ log P, or −∞",
        "Keskar et al. 2019",
    ),
    "attention": Story(
        "Where the decoder looked",
        "The last layer's cross-attention at this position, the mean of its heads.",
        "pᵢⱼ = Σ_heads α / h",
        _COVERAGE,
    ),
    "candidate_log_probs": Story(
        "Best continuations",
        "The sums, by the model alone, of the 2·beam best ways to go on from any living hypothesis.",
        "top-k (log P(past) + log P(next))",
        "6.1",
    ),
    "candidate_parents": Story(
        "Their parents", "From which living hypothesis each continues.", "⌊index / vocab⌋", "6.1"
    ),
    "candidate_ids": Story("Their tokens", "The token that each would append.", "index mod vocab", "6.1"),
    "candidate_sums": Story(
        "Their sums", "Of what the rules left: these rank, not the model's own.", "Σ log P′", _NOT_IN_PAPER
    ),
    "candidate_keys": Story(
        "What ordered them",
        "The sum less λ for each time that an earlier group of the sentence chose the token at this step.",
        "Σ log P − λ · count",
        "Vijayakumar et al. 2016",
    ),
    "candidate_outcomes": Story(
        "What became of them",
        "0 is dropped, 1 lives on (of those that do not end, the first beam), 2 ends (</s> among the first beam).",
        "0, 1 or 2",
        "6.1",
    ),
    "demanded_prefixes": Story(
        "Demanded beginnings", "What each output has to begin with, padded.", "given", _NOT_IN_PAPER
    ),
    "required_ids": Story(
        "Required sequences",
        "What each output has to hold, padded; until it does, it may not end, and the beam is divided.",
        "given",
        "Post and Vilar 2018",
    ),
    "banned_ids": Story("Banned sequences", "What no output may hold, padded.", "given", _NOT_IN_PAPER),
    "sums": Story(
        "Their sums", "Of what the rules left; they rank the living hypotheses.", "Σ log P′", _NOT_IN_PAPER
    ),
    "covered": Story(
        "Attention had so far",
        "What each source position was given by all ids of a hypothesis; padding counts as given enough.",
        "Σⱼ pᵢⱼ",
        _COVERAGE,
    ),
    "sentences": Story(
        "Sentences on their way",
        "Which sentences of the batch are searched still; in a diverse search, row · groups + group.",
        "rows",
        "6.1",
    ),
    "limits": Story(
        "Longest outputs",
        "The most ids that each output may have, </s> included; that of the source does not count.",
        "min(⌊a · n_src⌋ + b, max_length)",
        "6.1",
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
        "Divided by the length penalty, so that long outputs may win; coverage, if asked for, is added.",
        "Σ log P / ((5 + length) / 6)^α + β Σᵢ log min(Σⱼ pᵢⱼ, 1)",
        _WU,
    ),
    "done": Story(
        "Done",
        "Sentences that no further step can make better, samples that need none.",
        "no better one can come, or all are drawn",
        "6.1",
    ),
    "rows": Story(
        "Rows kept",
        "Row i of the next step continues this row: cache and memory follow.",
        "row ← rows[i]",
        _NOT_IN_PAPER,
    ),
    "filtered_log_probs": Story(
        "The distribution drawn from",
        "After temperature, top-k, top-p, min-p and typical-p, where they are set; what they leave out is −∞.",
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
