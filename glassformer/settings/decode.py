"""How the next tokens are chosen, and where each setting acts."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, ClassVar, Literal, Self

from glassformer.errors import ConfigError, check_type
from glassformer.settings.section import Section, knob

_LANGUAGE = re.compile(r"[a-z]{2,3}([-_][a-z0-9]+)*", re.IGNORECASE)
_search, _sampling, _scoring, _batching = (
    partial(knob, acts_in=stage) for stage in ("search", "sampling", "scoring", "batching")
)
_ALL = ("ctranslate2",)  # engines other than PyTorch
_LACKS_FILTER = {"ctranslate2": "has no such filter"}
_RENORMALIZES = {"ctranslate2": "makes the probabilities of what it leaves sum to 1 again"}


@dataclass(frozen=True, kw_only=True)
class DecodeConfig(Section):
    """How the next tokens are chosen. The defaults are the paper's: beam 4, length penalty 0.6, input + 50.

    Commands make their options of these fields. An option of sampling turns ``sample`` on.
    """

    retired: ClassVar[Mapping[str, tuple[tuple[Any, ...], str]]] = {
        "beam_groups": ((1,), "dd35302"),
        "diversity": ((0.5, 0.0), "dd35302"),
        "cuda_graphs": (("off", "auto"), "2acf25d9"),
    }

    beam: int = _search(4, "hypotheses kept at each step; 1 is greedy search", low=1, high=1000, equal_in=_ALL)
    length_penalty: float = _scoring(
        0.6, "α of ((5 + length) / 6)^α, by which log_prob is divided; 0: none", symbol="α", high=10.0, equal_in=_ALL
    )
    length_norm: Literal["gnmt", "power"] = _scoring(
        "gnmt", "the base of length_penalty: (5 + length) / 6 (paper), or the length (Hugging Face)", equal_in=_ALL
    )
    word_penalty: float = _scoring(
        0.0, "taken from a sum of log-probabilities for each token, before length_penalty divides it; as in Marian",
        high=100.0, missing_in={"ctranslate2": "has no such penalty"},
    )  # fmt: skip
    early_stopping: Literal["beam", "heuristic", "never", "shrink"] = _search(
        "beam",
        "ends a beam search: beam, at beam outputs (Hugging Face: true); heuristic, when none is better at its "
        "length (false); never, when none can become better; shrink, when each place of the beam holds an output",
        missing_in={"ctranslate2": "ends a search when beam outputs have ended"},
    )
    n_best: int = _search(
        1, "translations returned for each source, best first; at most beam", low=1, high=1000,
        differs_in={"ctranslate2": "may miss a hypothesis of a lower rank"},
    )  # fmt: skip
    min_length: int = _search(0, "the least number of tokens in an output", high=1_000_000, differs_in=_RENORMALIZES)
    repetition_penalty: float = _search(
        1.0, "multiplies the log-probability of each token that already occurs in the output; 1 changes nothing",
        symbol="θ", low=1.0, high=100.0, missing_in={"ctranslate2": "multiplies logits and not log-probabilities"},
    )  # fmt: skip
    no_repeat_ngram: int = _search(
        0, "no sequence of this many tokens occurs twice; 0 allows all", high=1_000_000, differs_in=_RENORMALIZES
    )
    coverage_penalty: float = _search(
        0.0, "β of β Σ log min(attention received, 1) over the source tokens, added to a hypothesis's score",
        symbol="β", high=100.0, missing_in={"ctranslate2": "does not keep the attention of each hypothesis"},
    )  # fmt: skip
    max_length_a: float = _search(
        1.0, "the longest output has a times the source's tokens + b; training derives both from its pairs",
        symbol="a", high=100.0, equal_in=_ALL,
    )  # fmt: skip
    max_length_b: int = _search(
        50, "see max_length_a; paper: input length + 50", symbol="b", low=1, high=100_000, equal_in=_ALL
    )
    allow_unk: bool = _search(
        True, "outputs may hold <unk>; Marian's hold none", missing_in={"ctranslate2": "has it as disable_unk"}
    )
    cache: bool = _search(
        True, "keep keys and values; without, every step decodes all positions again, for comparison",
        missing_in={"ctranslate2": "cannot decode without a cache"},
    )  # fmt: skip
    sample: bool = _sampling(
        False, "sample each token from the model's distribution instead of searching",
        differs_in={"ctranslate2": "draws other random numbers"},
    )  # fmt: skip
    temperature: float = _sampling(
        1.0, "divides the logits; below 1 prefers probable tokens", symbol="T", low=1e-4, high=100.0, equal_in=_ALL
    )
    top_k: int = _sampling(
        0, "sample from the k most probable tokens; 0 means all", symbol="k", high=1_000_000, equal_in=_ALL
    )
    top_p: float = _sampling(
        1.0, "sample from the fewest tokens with this much probability", symbol="p", high=1.0, equal_in=_ALL
    )
    min_p: float = _sampling(
        0.0, "least share of the best token's probability to sample from", high=1.0, missing_in=_LACKS_FILTER
    )
    typical_p: float = _sampling(
        1.0, "sample from the tokens of this much probability whose information is closest to the entropy",
        symbol="τ", high=1.0, missing_in=_LACKS_FILTER,
    )  # fmt: skip
    seed: int = _sampling(0, "seed of sampling", high=2**63 - 1, equal_in=_ALL)
    mbr: int = _sampling(
        0, "samples for minimum Bayes risk: the most like all others, by chrF, win; 0: none", high=1000, equal_in=_ALL
    )
    split_sentences: bool = _batching(
        False, "translate each sentence of a text separately; with --out that is the default"
    )
    src_language: str = _batching(
        "", "code of the sources' language, whose abbreviations end no sentence, such as de"
    )
    tgt_language: str = _batching(
        "", "the target language of texts that name none, such as spa, for a model that has several"
    )
    match_style: bool = _batching(
        False,
        "read upper-case texts, and those with a lower-case start, as sentences, and answer in their style; emoji at "
        "their ends come back unread. Training turns it on if its pairs are sentences",
    )
    copy_wordless: bool = _batching(True, "copy texts without a letter, such as numbers, instead of translating them")
    keep_codes: bool = _batching(
        True, "copy placeholders, tags, addresses and paths next to the aligned words; always on with --out"
    )
    batch_tokens: int = _batching(4096, "source tokens in one batch, padding and beam included", low=1, high=10**8)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.src_language and _LANGUAGE.fullmatch(self.src_language) is None:
            raise ConfigError(
                f"decode.src_language: found {self.src_language!r}, expected a code such as de or zh-Hant."
            )
        if self.mbr and not self.sample:
            raise ConfigError(
                f"decode.mbr: found {self.mbr} with sample = false, but it chooses among samples. "
                "Set sample to true, or mbr to 0."
            )
        if self.mbr and self.n_best > self.mbr:
            raise ConfigError(f"decode.n_best: found {self.n_best}, expected at most mbr = {self.mbr}. Raise mbr.")
        if not self.sample and self.n_best > self.beam:
            raise ConfigError(f"decode.n_best: found {self.n_best}, expected at most beam = {self.beam}. Raise beam.")

    @property
    def pool(self) -> int:
        """How many ended outputs a beam search keeps."""
        return self.n_best if self.early_stopping == "beam" else self.beam

    @property
    def rows_per_source(self) -> int:
        """Rows of each source in the decoder: hypotheses or samples."""
        return (self.mbr or self.n_best) if self.sample else self.beam

    def penalty(self, length: Any) -> Any:
        """((5 + length) / 6)^α, eos counted: equation 14 of Wu et al. 2016 (arXiv 1609.08144), as in section 6.1.

        Differs from the paper: "power", which Hugging Face and CTranslate2 have.
        """
        return (length if self.length_norm == "power" else (5 + length) / 6) ** self.length_penalty

    def score(self, log_prob: Any, length: Any) -> Any:
        """``log_prob`` less the word penalty, divided by the length penalty; numbers or tensors."""
        if self.word_penalty:
            log_prob = log_prob - self.word_penalty * length
        return log_prob / self.penalty(length)

    def with_changes(self, changes: Mapping[str, Any]) -> Self:
        """These options with ``changes``. Raises ``ConfigError`` for a value out of range, or without effect.

        An option of sampling turns it on, one of beam search turns it off; a beam that is not given widens to n_best.
        """
        check_type("decode", changes, Mapping, "a dict such as {'beam': 5}", ConfigError)
        for key, value in changes.items():
            if not isinstance(value, int | float):
                type(self).from_mapping({key: value})  # its type, before it is compared with numbers
        if "sample" not in changes and changes.keys() & (IMPLY_SAMPLING | _ONLY_IN_SEARCH.keys()):
            changes = {**changes, "sample": bool(changes.keys() & IMPLY_SAMPLING)}
        idle = [flag(key) for key, neutral in _ONLY_IN_SEARCH.items() if changes.get(key, neutral) > neutral]
        if changes.get("sample") and idle:
            raise ConfigError(f"{', '.join(idle)}: found with sampling, on which it has no effect. Drop one of both.")
        if "n_best" in changes and "beam" not in changes and not changes.get("sample"):
            changes = {**changes, "beam": max(self.beam, changes["n_best"])}
        return self.from_mapping({**self.to_mapping(), **changes})


IMPLY_SAMPLING = {knob.name for knob in fields(DecodeConfig) if knob.metadata["acts_in"] == "sampling"} - {"sample"}
_ONLY_IN_SEARCH = {"beam": 1, "coverage_penalty": 0.0}  # and their neutral values


def flag(name: str, value: object = None) -> str:
    """The command-line option that gives a setting this value."""
    return f"--{'no-' if value is False else ''}{name.replace('_', '-')}"
