"""Every knob, in one place: what it means, the paper's symbol, its default and its limits.

Four frozen sections make one ``RunConfig``: ``model``, ``text``, ``train`` and ``decode``. TOML files and
``--set section.key=value`` both go through ``RunConfig.from_mapping``, which refuses unknown keys. Knows
nothing of torch.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

from glassformer.errors import ConfigError, nearest
from glassformer.settings import RetiredSetting, Section, knob


@dataclass(frozen=True, kw_only=True)
class ModelConfig(Section):
    """The Transformer's shape and choices. The defaults are the paper's base model (table 3)."""

    src_vocab: int = knob(
        37_000, "entries of the source vocabulary; training sets it from the tokenizer", low=4, high=1_000_000
    )
    tgt_vocab: int = knob(
        37_000, "entries of the target vocabulary; training sets it from the tokenizer", low=4, high=1_000_000
    )
    d_model: int = knob(512, "width of every token's vector", symbol="d_model", low=1, high=65_536)
    n_heads: int = knob(8, "attention heads", symbol="h", low=1, high=4096)
    d_k: int = knob(
        0, "width of a query and a key in one head; 0 means d_model / n_heads", symbol="d_k", low=0, high=65_536
    )
    d_v: int = knob(0, "width of a value in one head; 0 means d_k", symbol="d_v", low=0, high=65_536)
    d_ff: int = knob(2048, "inner width of the feed-forward network", symbol="d_ff", low=1, high=1_000_000)
    n_encoder_layers: int = knob(6, "encoder layers", symbol="N", low=1, high=1000)
    n_decoder_layers: int = knob(6, "decoder layers", symbol="N", low=1, high=1000)
    max_length: int = knob(1024, "the longest source or target, in tokens", low=2, high=1_000_000)
    positions: Literal["sinusoidal", "learned", "relative", "rotary", "alibi"] = knob(
        "sinusoidal", "how order enters: the paper's table, a learned table, Shaw et al. 2018, RoPE, or ALiBi"
    )
    relative_clip: int = knob(
        16, "distance beyond which relative positions look alike", symbol="k", low=1, high=1_000_000
    )
    norm: Literal["post", "pre"] = knob("post", "layer norm after the residual sum (paper) or before the sublayer")
    norm_eps: float = knob(1e-5, "added to the variance in layer norm", symbol="ε", low=1e-12, high=1.0)
    activation: Literal["relu", "gelu", "swish"] = knob("relu", "between the two feed-forward maps; paper: relu")
    attention_bias: bool = knob(False, "biases on the four attention projections; the paper has none")
    output_bias: bool = knob(False, "a bias on the output projection to the vocabulary")
    scale_embedding: bool = knob(True, "multiply embeddings by sqrt(d_model), section 3.4")
    tie_embeddings: Literal["all", "target", "none"] = knob(
        "all", "share one matrix: source, target and output (paper); target and output; or none"
    )
    dropout: float = knob(
        0.1, "dropout on embeddings and on each sublayer's output", symbol="P_drop", low=0.0, high=0.99
    )
    pad_id: int = knob(0, "the id of padding", low=0, high=999_999)
    bos_id: int = knob(1, "the id that starts a target", low=0, high=999_999)
    eos_id: int = knob(2, "the id that ends a source and a target", low=0, high=999_999)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.d_k == 0:
            self._resolve_d_k()
        if self.d_v == 0:
            object.__setattr__(self, "d_v", self.d_k)
        if self.positions == "rotary" and self.d_k % 2:
            raise ConfigError(
                f"model.d_k: found {self.d_k}, expected an even number: rotary positions turn pairs. "
                "Set an even one, or choose other positions."
            )
        if self.positions == "sinusoidal" and self.d_model % 2:
            raise ConfigError(
                f"model.d_model: found {self.d_model}, expected an even number: "
                "sinusoidal positions interleave sine and cosine. Make it even, or choose other positions."
            )
        if self.tie_embeddings == "all" and self.src_vocab != self.tgt_vocab:
            raise ConfigError(
                f"model.tie_embeddings: 'all' shares one matrix, but src_vocab is {self.src_vocab} and tgt_vocab "
                f"is {self.tgt_vocab}. Use a joint vocabulary, or tie_embeddings = 'target' or 'none'."
            )
        self._check_special_ids()

    def _resolve_d_k(self) -> None:
        if self.d_model % self.n_heads:
            raise ConfigError(
                f"model.d_model: found {self.d_model}, expected a multiple of n_heads = {self.n_heads}. "
                "Change one of them, or set d_k yourself."
            )
        object.__setattr__(self, "d_k", self.d_model // self.n_heads)

    def _check_special_ids(self) -> None:
        special = (self.pad_id, self.bos_id, self.eos_id)
        limit = min(self.src_vocab, self.tgt_vocab)
        if len(set(special)) < 3 or max(special) >= limit:
            raise ConfigError(
                f"model.pad_id, bos_id, eos_id: found {special}, expected three different ids below {limit}. "
                "Choose others."
            )

    @property
    def heads_d_k(self) -> int:
        """Width of the queries or keys of all heads side by side."""
        return self.n_heads * self.d_k

    @property
    def heads_d_v(self) -> int:
        """Width of the values of all heads side by side."""
        return self.n_heads * self.d_v

    @classmethod
    def micro(cls, **changes: Any) -> Self:
        """2 + 2 layers, d_model 128: some minutes on up to 20,000 pairs; norms come first, as in ``tiny``."""
        return cls.from_name("micro", **changes)

    @classmethod
    def tiny(cls, **changes: Any) -> Self:
        """4 + 4 layers, d_model 128, for some 30,000 pairs: the sizes of Wu et al. 2021 (arXiv 2105.14462).

        Differs from the paper: norms come first, with which a small model learns in far fewer updates.
        """
        return cls.from_name("tiny", **changes)

    @classmethod
    def small(cls, **changes: Any) -> Self:
        """3 + 3 layers, d_model 256: a few hundred thousand pairs on a laptop; norms come first, as in ``tiny``."""
        return cls.from_name("small", **changes)

    @classmethod
    def base(cls, **changes: Any) -> Self:
        """The paper's base model, table 3."""
        return cls.from_name("base", **changes)

    @classmethod
    def big(cls, **changes: Any) -> Self:
        """The paper's big model, table 3."""
        return cls.from_name("big", **changes)

    @classmethod
    def walkthrough(cls, **changes: Any) -> Self:
        """The model of the "paper from scratch" walkthrough: untied, biased, unscaled, 44,312,696 parameters."""
        return cls.from_name("walkthrough", **changes)

    @classmethod
    def from_name(cls, name: str, **changes: Any) -> Self:
        """A named configuration with some values changed."""
        return cls.from_mapping({**named_model(name), **changes})


# Written out, although they are the defaults: a named model also stands over a task's or a file's sizes.
_PAPERS_BASE: dict[str, Any] = {
    "d_model": 512, "n_heads": 8, "d_ff": 2048, "n_encoder_layers": 6, "n_decoder_layers": 6, "norm": "post",
}  # fmt: skip
NAMED_MODELS: dict[str, dict[str, Any]] = {
    "micro": {
        "src_vocab": 8_000, "tgt_vocab": 8_000, "d_model": 128, "n_heads": 4, "d_ff": 256,
        "n_encoder_layers": 2, "n_decoder_layers": 2, "norm": "pre", "dropout": 0.2,
    },
    "tiny": {
        "src_vocab": 8_000, "tgt_vocab": 8_000, "d_model": 128, "n_heads": 4, "d_ff": 256,
        "n_encoder_layers": 4, "n_decoder_layers": 4, "norm": "pre", "dropout": 0.3,
    },
    "small": {
        "src_vocab": 8_000, "tgt_vocab": 8_000, "d_model": 256, "n_heads": 4, "d_ff": 1024,
        "n_encoder_layers": 3, "n_decoder_layers": 3, "norm": "pre",
    },
    "base": {**_PAPERS_BASE},
    "big": {**_PAPERS_BASE, "d_model": 1024, "n_heads": 16, "d_ff": 4096, "dropout": 0.3},
    "walkthrough": {
        **_PAPERS_BASE, "src_vocab": 100, "tgt_vocab": 120, "max_length": 200, "tie_embeddings": "none",
        "attention_bias": True, "output_bias": True, "scale_embedding": False,
    },
}  # fmt: skip


def named_model(name: str) -> dict[str, Any]:
    """What a named configuration sets apart from the defaults."""
    if not isinstance(name, str) or name not in NAMED_MODELS:
        raise ConfigError(
            f"model.name: there is no configuration named {name!r}.{nearest(str(name), NAMED_MODELS)} "
            f"Known: {', '.join(NAMED_MODELS)}."
        )
    return dict(NAMED_MODELS[name])


def default_vocab_size(pairs: int) -> int:
    """The entries of a vocabulary that is trained on so many pairs, if ``text.vocab_size`` does not say."""
    return min(8000, max(512, pairs))


@dataclass(frozen=True, kw_only=True)
class TextConfig(Section):
    """From raw text to ids: the tokenizer, which pairs are kept, and what is set aside for validation."""

    tokenizer: Literal["bpe", "wordpiece", "unigram", "words", "characters"] = knob(
        "bpe", "byte-level BPE, WordPiece, unigram, words on spaces and punctuation, or characters"
    )
    vocab_size: int = knob(
        0, "entries of a trained vocabulary, control tokens included; 0 means one for each pair, from 512 to 8,000",
        low=0, high=1_000_000,
    )  # fmt: skip
    joint: bool = knob(True, "one tokenizer for both sides, or one for each")
    tokenizer_pairs: int = knob(
        1_000_000,
        "at most this many pairs train a tokenizer, drawn at random from a larger corpus; 0 means all",
        low=0,
        high=10**9,
    )
    lowercase: bool = knob(False, "lower-case all text before it is split")
    max_tokens: int = knob(
        256, "pairs with more tokens on a side, or more than the model takes, are left out", low=1, high=1_000_000
    )
    max_ratio: float = knob(
        9.0,
        "pairs whose longer side has more than this many times the tokens of the shorter, plus 10, are left out",
        low=1.0,
        high=1e6,
    )
    valid_pairs: int = knob(
        0,
        "pairs split off for validation when none are given; 0 means a twentieth, from 1 to 1000",
        low=0,
        high=10**8,
    )
    bpe_dropout: float = knob(
        0.0,
        "probability of leaving out a merge when training text is cut into tokens, again in each epoch (Provilkov et "
        "al. 2020; there 0.1); 0 means the same tokens in all epochs",
        symbol="p", low=0.0, high=1.0,
    )  # fmt: skip
    workers: int = knob(0, "processes that prepare a large corpus; 0 means one for each core", low=0, high=1024)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.bpe_dropout and self.tokenizer != "bpe":
            raise ConfigError(
                f"text.bpe_dropout: found {self.bpe_dropout} with tokenizer {self.tokenizer!r}, expected 'bpe': the "
                "others make no merges. Set text.tokenizer to bpe, or text.bpe_dropout to 0."
            )


@dataclass(frozen=True, kw_only=True)
class TrainConfig(Section):
    """How a model is trained. The defaults are the recipe for small corpora; the paper's stand in each doc."""

    seed: int = knob(1, "seed of weights, dropout and order", low=0, high=2**63 - 1)
    batch_tokens: int = knob(
        2048,
        "size of a batch, at most: rows times the longer side; paper: about 25,000 tokens a side",
        low=1,
        high=10**8,
    )
    bucket: int = knob(
        2,
        "lengths within this many tokens share batches: 1 pads least, more mixes sentences better",
        low=1,
        high=1_000_000,
    )
    accumulate: int = knob(1, "batches whose gradients make one update, in each process", low=1, high=10_000)
    max_updates: int = knob(100_000, "updates after which training ends; paper: 100,000", low=1, high=10**9)
    max_minutes: float = knob(0.0, "minutes of training after which it ends; 0 means no limit", low=0.0, high=1e7)
    schedule: Literal["noam", "inverse_sqrt"] = knob(
        "noam",
        "the paper's equation 3, whose peak follows from d_model and warmup; or the same curve up to peak_rate",
    )
    peak_rate: float = knob(0.0, "highest learning rate of inverse_sqrt; 0 with noam", low=0.0)
    warmup: int = knob(
        0, "updates of linear warm-up; 0 means 4000, as in the paper, with norm post, and 500 with norm pre",
        symbol="warmup_steps", low=0, high=10**9,
    )  # fmt: skip
    cooldown: float = knob(
        0.25,
        "share of the training, its last part, over which the rate falls linearly to zero; 0 means "
        "none, as in the paper",
        low=0.0, high=0.9,
    )  # fmt: skip
    adam_beta1: float = knob(0.9, "decay of Adam's first moment", symbol="β1", low=0.0, high=0.99999)
    adam_beta2: float = knob(0.98, "decay of Adam's second moment", symbol="β2", low=0.0, high=0.99999)
    adam_eps: float = knob(1e-9, "added to Adam's denominator", symbol="ε", low=1e-12, high=1.0)
    clip_norm: float = knob(1.0, "largest global gradient norm; 0 means no clipping, as in the paper", low=0.0)
    label_smoothing: float = knob(
        0.1, "probability spread evenly over the vocabulary", symbol="ε_ls", low=0.0, high=0.99
    )
    freeze: str = knob(
        "",
        "addresses of modules or weights that are not trained, with * and ?, separated by commas: encoder, *.norm*",
    )
    mix: float = knob(
        0.0,
        "share of the training pairs that come from the file of --mix, drawn again in each epoch; 0 means half",
        low=0.0, high=0.99,
    )  # fmt: skip
    r_drop: float = knob(
        0.0,
        "weight of R-Drop (Liang et al. 2021; there 5): each batch passes twice, at twice the cost, and the two "
        "outputs are pulled together; 0 means one pass",
        symbol="α", low=0.0, high=100.0,
    )  # fmt: skip
    precision: Literal["float32", "bf16"] = knob(
        "float32", "arithmetic of forward and backward; weights stay float32"
    )
    device: str = knob("auto", "where to train: auto, cpu, cuda, cuda:1 ...")
    sharding: Literal["none", "full"] = knob(
        "none", "of several processes, each holds the whole model, or a shard of every weight, gradient and moment"
    )
    metric: Literal["chrf", "bleu", "exact_match", "loss"] = knob(
        "chrf", "what decides which checkpoint is best and which model is kept; tasks with one answer set exact_match"
    )
    validate_every: int = knob(
        0, "updates between validations; 0 means once an epoch, but not within 50 updates", low=0, high=10**9
    )
    valid_translations: int = knob(
        200, "validation sentences translated for BLEU, chrF and exact match; 0 means all", low=0, high=10**9
    )
    patience: int = knob(
        10,
        "validations without a better metric or loss before the cooldown begins, or, with none, training ends; 0 "
        "means never",
        low=0,
        high=10**9,
    )
    stop_at: float = knob(0.0, "end once bleu, chrf or exact_match reaches this in percent; 0 means never", low=0.0)
    average_last: int = knob(5, "checkpoints averaged into the final model; paper: 5; 1 means none", low=1, high=1000)
    on_divergence: Literal["stop", "restart"] = knob(
        "stop",
        "when a loss or a gradient is not finite: end with an error, or go back to the last saved state with half "
        "the learning rate, up to three times",
    )
    log_every: int = knob(50, "updates between two lines of the log", low=1, high=10**9)
    save_minutes: float = knob(
        10.0, "at most this many minutes between two saves of the state for resuming", low=0.01, high=1e7
    )
    tensorboard: bool = knob(False, "also write TensorBoard events (pip install 'glassformer[tensorboard]')")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.schedule == "noam" and self.peak_rate:
            raise ConfigError(
                f"train.peak_rate: found {self.peak_rate} with schedule 'noam', expected none: its peak follows from "
                "d_model and warmup. To choose the peak, set train.schedule=inverse_sqrt with it."
            )
        if self.schedule != "noam" and not self.peak_rate:
            raise ConfigError(
                f"train.peak_rate: found none with schedule {self.schedule!r}, expected a peak above 0. "
                "Set it, too: train.peak_rate=1e-3."
            )


@dataclass(frozen=True, kw_only=True)
class DecodeConfig(Section):
    """How the next tokens are chosen. The defaults are the paper's: beam 4, length penalty 0.6, input + 50.

    Each field says where it acts: in the ``search``, in ``sampling``, in ``scoring`` or in ``batching``, and which
    engines do not have it. The options of the commands are made from these fields.
    """

    retired: ClassVar[Mapping[str, RetiredSetting]] = {  # of diverse beam search
        "beam_groups": RetiredSetting((1,), "dd35302"),
        "diversity": RetiredSetting((0.5, 0.0), "dd35302"),
    }

    beam: int = knob(4, "hypotheses kept at each step; 1 is greedy search", low=1, high=1000, acts_in="search")
    length_penalty: float = knob(
        0.6, "α of ((5 + length) / 6)^α, by which log_prob is divided; 0 means no penalty", symbol="α",
        low=0.0, high=10.0, acts_in="scoring",
    )  # fmt: skip
    length_norm: Literal["gnmt", "power"] = knob(
        "gnmt",
        "what length_penalty is the exponent of: (5 + length) / 6, as in the paper, or the length itself, as in "
        "Hugging Face and CTranslate2",
        acts_in="scoring",
    )
    early_stopping: Literal["beam", "heuristic", "never"] = knob(
        "beam",
        "when a beam search ends: when beam outputs have ended or none can be better (Hugging Face: true); when none "
        "would be better at the length so far (Hugging Face: false); or when none can be better than any of beam",
        acts_in="search",
    )
    n_best: int = knob(
        1, "translations returned for each source, best first; at most beam", low=1, high=1000, acts_in="search"
    )
    min_length: int = knob(0, "the least number of tokens in an output", low=0, high=1_000_000, acts_in="search")
    repetition_penalty: float = knob(
        1.0, "multiplies the log-probability of each token that already occurs in the output; 1 changes nothing",
        symbol="θ", low=1.0, high=100.0, acts_in="search",
        missing_in={"ctranslate2": "multiplies logits and not log-probabilities"},
    )  # fmt: skip
    no_repeat_ngram: int = knob(
        0,
        "no sequence of this many tokens occurs twice in an output; 0 allows all",
        low=0,
        high=1_000_000,
        acts_in="search",
    )
    coverage_penalty: float = knob(
        0.0, "β of β Σ log min(attention received, 1) over the source tokens, added to a hypothesis's score",
        symbol="β", low=0.0, high=100.0, acts_in="search",
        missing_in={"ctranslate2": "needs the attention of each hypothesis, which it does not keep"},
    )  # fmt: skip
    max_length_a: float = knob(
        1.0, "the longest output has a times the source's tokens + b", symbol="a", low=0.0, high=100.0,
        acts_in="search",
    )  # fmt: skip
    max_length_b: int = knob(
        50, "see max_length_a; the paper: input length + 50", symbol="b", low=1, high=100_000, acts_in="search"
    )
    cache: bool = knob(
        True, "keep keys and values; without them every step decodes all positions again, for comparison",
        acts_in="search", missing_in={"ctranslate2": "cannot decode without a cache"},
    )  # fmt: skip
    sample: bool = knob(
        False, "sample each token from the model's distribution instead of searching", acts_in="sampling"
    )
    temperature: float = knob(
        1.0, "divides the logits before sampling; below 1 prefers probable tokens", symbol="T",
        low=1e-4, high=100.0, acts_in="sampling",
    )  # fmt: skip
    top_k: int = knob(
        0,
        "sample from the k most probable tokens; 0 means all",
        symbol="k",
        low=0,
        high=1_000_000,
        acts_in="sampling",
    )
    top_p: float = knob(
        1.0, "sample from the smallest set of tokens with this much probability", symbol="p",
        low=0.0, high=1.0, acts_in="sampling",
    )  # fmt: skip
    min_p: float = knob(
        0.0, "sample from tokens with at least this share of the best token's probability",
        low=0.0, high=1.0, acts_in="sampling", missing_in={"ctranslate2": "has no such filter"},
    )  # fmt: skip
    typical_p: float = knob(
        1.0, "sample from the most typical tokens, whose information is closest to the entropy, with this much "
        "probability", symbol="τ", low=0.0, high=1.0, acts_in="sampling",
        missing_in={"ctranslate2": "has no such filter"},
    )  # fmt: skip
    seed: int = knob(0, "seed of sampling", low=0, high=2**63 - 1, acts_in="sampling")
    mbr: int = knob(
        0, "samples for minimum Bayes risk, which returns those that agree most with all, by chrF; 0 ranks by score",
        low=0, high=1000, acts_in="sampling",
    )  # fmt: skip
    split_sentences: bool = knob(
        False, "translate each sentence of a text separately and join the translations", acts_in="batching"
    )
    batch_tokens: int = knob(
        4096, "source tokens in one batch, padding and beam included", low=1, high=10**8, acts_in="batching"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mbr and not self.sample:
            raise ConfigError(
                f"decode.mbr: found {self.mbr} with sample = false, expected sampling: it chooses among samples. "
                "Set sample to true, or mbr to 0."
            )
        if self.mbr and self.n_best > self.mbr:
            raise ConfigError(f"decode.n_best: found {self.n_best}, expected at most mbr = {self.mbr}. Raise mbr.")
        if not self.sample and self.n_best > self.beam:
            raise ConfigError(f"decode.n_best: found {self.n_best}, expected at most beam = {self.beam}. Raise beam.")

    @property
    def pool(self) -> int:
        """How many ended outputs a beam search keeps: all of the beam, if the worst of them decides when it ends."""
        return self.n_best if self.early_stopping == "beam" else self.beam

    @property
    def rows_per_source(self) -> int:
        """Rows that each source has in the decoder: its hypotheses, or its samples."""
        return (self.mbr or self.n_best) if self.sample else self.beam

    def penalty(self, length: Any) -> Any:
        """((5 + length) / 6)^α, by which log_prob is divided, or length^α with ``length_norm`` "power".

        ``length`` is a number of ids, eos included, or a tensor of such numbers. Equation 14 of Wu et al. 2016
        (arXiv 1609.08144), which section 6.1 of the paper uses with α = 0.6.
        Differs from the paper: "power", which Hugging Face and CTranslate2 have.
        """
        return (length if self.length_norm == "power" else (5 + length) / 6) ** self.length_penalty

    def with_changes(self, changes: Mapping[str, Any]) -> Self:
        """These options with ``changes``, as a command applies its own options to those of a run.

        An option that only a search has turns sampling off, and a beam that is not given widens to n_best.
        Raises ``ConfigError`` for a value out of range, and for an option without effect.
        """
        if not isinstance(changes, Mapping):
            raise ConfigError(f"decode: found {type(changes).__name__}, expected a dict such as {{'beam': 5}}.")
        for key, value in changes.items():
            if not isinstance(value, int | float):
                type(self).from_mapping({key: value})  # its type, before it is compared with numbers
        if "sample" not in changes and changes.keys() & _ONLY_IN_SEARCH.keys():
            changes = {**changes, "sample": False}
        without_effect = [
            flag(key) for key, neutral in _ONLY_IN_SEARCH.items() if changes.get(key, neutral) > neutral
        ]
        if changes.get("sample") and without_effect:
            raise ConfigError(
                f"{', '.join(without_effect)}: found with sampling, on which it has no effect. Drop one of both."
            )
        if "n_best" in changes and "beam" not in changes and not changes.get("sample"):
            changes = {**changes, "beam": max(self.beam, changes["n_best"])}
        return self.from_mapping({**self.to_mapping(), **changes})


_ONLY_IN_SEARCH = {"beam": 1, "coverage_penalty": 0.0}  # and their neutral values


def flag(name: str, value: object = None) -> str:
    """The command-line option that gives a setting this value."""
    return f"--{'no-' if value is False else ''}{name.replace('_', '-')}"


# Post-norm gradients are large near the output at first, and need the paper's long warm-up; pre-norm ones do not
# (Xiong et al. 2020, arXiv 2002.04745).
WARMUP = {"post": 4000, "pre": 500}


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Everything that one training run was made with; saved whole in its directory."""

    model: ModelConfig = field(default_factory=ModelConfig)
    text: TextConfig = field(default_factory=TextConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    decode: DecodeConfig = field(default_factory=DecodeConfig)

    def __post_init__(self) -> None:
        if self.model.tie_embeddings == "all" and not self.text.joint:
            raise ConfigError(
                "model.tie_embeddings: 'all' shares one matrix between both sides, but text.joint is false. "
                "Set model.tie_embeddings to 'target' or 'none', or text.joint to true."
            )
        if self.train.r_drop and not self.model.dropout:
            raise ConfigError(
                f"train.r_drop: found {self.train.r_drop} with model.dropout = 0, expected dropout: without it both "
                "passes are the same. Set model.dropout above 0, or train.r_drop to 0."
            )
        if self.train.warmup == 0:
            object.__setattr__(self, "train", replace(self.train, warmup=WARMUP[self.model.norm]))
        if self.text.max_tokens >= self.model.max_length:
            # A sentence takes one position more than it has tokens.
            object.__setattr__(self, "text", replace(self.text, max_tokens=self.model.max_length - 1))

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Self:
        """Build from nested plain values; ``model`` may carry ``name = "tiny"`` to start from a named one."""
        sections: dict[str, type[Section]] = {
            "model": ModelConfig, "text": TextConfig, "train": TrainConfig, "decode": DecodeConfig,
        }  # fmt: skip
        if not isinstance(values, Mapping):
            raise ConfigError(
                f"settings: found {type(values).__name__}, expected sections such as {{'model': {{}}}}."
            )
        for key, value in values.items():
            if key not in sections:
                raise ConfigError(
                    f"{key}: there is no such section.{nearest(key, sections)} Known: {', '.join(sections)}."
                )
            if not isinstance(value, Mapping):
                raise ConfigError(
                    f"{key}: found {value!r}, expected a section of settings such as {key}.name = value."
                )
        made = {}
        for key, section in sections.items():
            settings = dict(values.get(key, {}))
            if section is ModelConfig and "name" in settings:
                settings = {**named_model(settings.pop("name")), **settings}
            made[key] = section.from_mapping(settings)
        return cls(**made)  # type: ignore[arg-type]  # each key holds its own section

    def to_mapping(self) -> dict[str, Any]:
        """The effective values of all sections, ready for JSON."""
        return asdict(self)
