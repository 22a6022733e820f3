"""Ten words, texts of them, and what is compared of their translations."""

WORDS = ["the", "old", "house", "stands", "by", "a", "river", "under", "tall", "trees"]
TEXTS = [
    " ".join(WORDS[start : start + length]) for start, length in [(0, 3), (2, 7), (1, 1), (4, 2), (3, 5), (0, 2)]
]
MIXED = [*TEXTS[:2], "", *TEXTS[2:4], " \t", *TEXTS[4:], "\u200b\u00a0"]


def outcomes(translations) -> list:
    return [
        (one.source, one.source_tokens, [(best.text, best.ids, best.truncated) for best in one.hypotheses])
        for one in translations
    ]
