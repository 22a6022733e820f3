"""The model's settings, and the named ones, each with its source."""

from dataclasses import dataclass
from typing import Any, Literal, Self

from glassformer.errors import ConfigError, nearest
from glassformer.settings.section import Section, knob


@dataclass(frozen=True, kw_only=True)
class ModelConfig(Section):
    """The Transformer's shape and choices. The defaults are the paper's base model (table 3)."""

    src_vocab: int = knob(37_000, "entries of the source vocabulary; set by training", low=4, high=1_000_000)
    tgt_vocab: int = knob(37_000, "entries of the target vocabulary; set by training", low=4, high=1_000_000)
    d_model: int = knob(512, "width of a token's vector", symbol="d_model", low=1, high=65_536)
    n_heads: int = knob(8, "attention heads", symbol="h", low=1, high=4096)
    d_k: int = knob(0, "width of a query and a key in one head; 0 means d_model / n_heads", symbol="d_k", high=65_536)
    d_v: int = knob(0, "width of a value in one head; 0 means d_k", symbol="d_v", high=65_536)
    d_ff: int = knob(2048, "inner width of the feed-forward network", symbol="d_ff", low=1, high=1_000_000)
    n_encoder_layers: int = knob(6, "encoder layers", symbol="N", low=1, high=1000)
    n_decoder_layers: int = knob(6, "decoder layers", symbol="N", low=1, high=1000)
    max_length: int = knob(1024, "the longest source or target, in tokens", low=2, high=1_000_000)
    positions: Literal["sinusoidal", "learned", "relative", "rotary", "alibi"] = knob(
        "sinusoidal", "how order enters: the paper's table, a learned table, Shaw et al. 2018, RoPE, or ALiBi"
    )
    sinusoid: Literal["paper", "tensor2tensor"] = knob(
        "paper", "which table sinusoidal positions have: the paper's, or tensor2tensor's, which Marian computes"
    )
    relative_clip: int = knob(16, "distance at which relative positions are clipped", symbol="k", low=1, high=10**6)
    autoregressive_sublayer: Literal["self_attention", "ssru"] = knob(
        "self_attention", "how a target position reads those before it: self-attention (paper), or Kim et al. 2019"
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
    dropout: float = knob(0.1, "dropout on embeddings and on each sublayer's output", symbol="P_drop", high=0.99)
    pad_id: int = knob(0, "the id of padding", high=999_999)
    bos_id: int = knob(1, "the id that starts a target", high=999_999)
    eos_id: int = knob(2, "the id that ends a source and a target", high=999_999)

    @property
    def adds_positions(self) -> bool:
        """Whether a vector for each position is added to the embeddings."""
        return self.positions in ("sinusoidal", "learned")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.d_k == 0:
            if self.d_model % self.n_heads:
                raise ConfigError(
                    f"model.d_model: found {self.d_model}, expected a multiple of n_heads = {self.n_heads}. "
                    "Change one of them, or set d_k yourself."
                )
            object.__setattr__(self, "d_k", self.d_model // self.n_heads)
        if self.d_v == 0:
            object.__setattr__(self, "d_v", self.d_k)
        if self.positions == "rotary" and self.d_k % 2:
            raise ConfigError(f"model.d_k: found {self.d_k}, expected an even number for rotary positions. Set one.")
        if self.positions == "sinusoidal" and self.d_model % 2:
            raise ConfigError(
                f"model.d_model: found {self.d_model}, expected an even number for sinusoidal positions. Set one."
            )
        if self.tie_embeddings == "all" and self.src_vocab != self.tgt_vocab:
            raise ConfigError(
                f"model.tie_embeddings: 'all' shares one matrix, but src_vocab is {self.src_vocab} and tgt_vocab "
                f"is {self.tgt_vocab}. Use a joint vocabulary, or tie_embeddings = 'target' or 'none'."
            )
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
        """2 + 2 layers, d_model 128: some minutes on up to 20,000 pairs; norms come first."""
        return cls.from_name("micro", **changes)

    @classmethod
    def tiny(cls, **changes: Any) -> Self:
        """4 + 4 layers, d_model 128, for some 30,000 pairs: the sizes of Wu et al. 2021 (arXiv 2105.14462).

        Differs from the paper: norms come first, with which a small model learns in far fewer updates.
        """
        return cls.from_name("tiny", **changes)

    @classmethod
    def small(cls, **changes: Any) -> Self:
        """3 + 3 layers, d_model 256: a few hundred thousand pairs on a laptop; norms come first."""
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
        """The model of the "paper from scratch" walkthrough: untied, biased, unscaled."""
        return cls.from_name("walkthrough", **changes)

    @classmethod
    def from_name(cls, name: str, **changes: Any) -> Self:
        """A named configuration with some values changed."""
        return cls.from_mapping({**named_model(name), **changes})


# Written out, although they are the defaults: a named model overrides the sizes of a task or a file.
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
