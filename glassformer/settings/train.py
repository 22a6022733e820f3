"""The settings of a training."""

from dataclasses import dataclass
from typing import Literal

from glassformer.errors import ConfigError
from glassformer.settings.section import Section, knob

LIMITS = ("max_updates", "max_minutes", "patience", "stop_at")  # what ends a training


@dataclass(frozen=True, kw_only=True)
class TrainConfig(Section):
    """How a model is trained. The defaults are the recipe for small corpora; the paper's stand in each doc."""

    seed: int = knob(1, "seed of weights, dropout and order", high=2**63 - 1)
    batch_tokens: int = knob(
        2048, "rows of a batch times its longer side, at most; paper: about 25,000 tokens a side", low=1, high=10**8
    )
    bucket: int = knob(
        2, "lengths within this many tokens share batches: 1 pads least, more mixes better", low=1, high=1_000_000
    )
    accumulate: int = knob(1, "batches whose gradients make one update, in each process", low=1, high=10_000)
    max_updates: int = knob(100_000, "updates after which training ends; paper: 100,000", low=1, high=10**9)
    max_minutes: float = knob(0.0, "minutes of training after which it ends; 0: no limit", high=1e7)
    schedule: Literal["noam", "inverse_sqrt"] = knob(
        "noam",
        "the paper's equation 3, whose peak follows from d_model and warmup; or the same curve up to peak_rate",
    )
    peak_rate: float = knob(0.0, "highest learning rate of inverse_sqrt; 0 with noam")
    warmup: int = knob(
        0, "updates of linear warm-up; 0: 4000, as in the paper, with norm post, 500 with norm pre",
        symbol="warmup_steps", high=10**9,
    )  # fmt: skip
    cooldown: float = knob(
        0.25, "last share of the training, over which the rate falls linearly to zero; paper: 0", high=0.9
    )
    adam_beta1: float = knob(0.9, "decay of Adam's first moment", symbol="β1", high=0.99999)
    adam_beta2: float = knob(0.98, "decay of Adam's second moment", symbol="β2", high=0.99999)
    adam_eps: float = knob(1e-9, "added to Adam's denominator", symbol="ε", low=1e-12, high=1.0)
    clip_norm: float = knob(1.0, "largest global gradient norm; 0: no clipping, as in the paper")
    label_smoothing: float = knob(0.1, "probability spread evenly over the vocabulary", symbol="ε_ls", high=0.99)
    freeze: str = knob(
        "", "addresses of modules or weights that are not trained, separated by commas: encoder, *.norm*"
    )
    mix: float = knob(0.0, "share of the pairs of --mix, drawn again in each epoch; 0: half", high=0.99)
    r_drop: float = knob(
        0.0, "weight of R-Drop (Liang et al. 2021; there 5): each batch passes twice, at twice the cost, and its two "
        "outputs are pulled together; 0: one pass", symbol="α", high=100.0,
    )  # fmt: skip
    precision: Literal["auto", "float32", "bf16"] = knob(
        "auto", "of products, weights stay float32; auto: bf16 on a GPU that has it, else float32"
    )
    compile: Literal["auto", "on", "off"] = knob(
        "auto", "torch.compile of layers and loss, half a minute at the start; auto: on a single GPU with Triton and "
        "a C compiler",
    )  # fmt: skip
    device: str = knob("auto", "where to train: auto, cpu, cuda, cuda:1 ...")
    threads: Literal["auto"] | int = knob(
        "auto",
        "threads of each process on a CPU; auto: OMP_NUM_THREADS, or else the fastest number",
        low=1,
        high=1024,
    )
    sharding: Literal["none", "full"] = knob(
        "none", "each of several processes holds the whole model, or a shard of every weight, gradient and moment"
    )
    metric: Literal["chrf", "bleu", "exact_match", "loss"] = knob(
        "chrf", "decides which checkpoint is best and which model is kept; tasks with one answer set exact_match"
    )
    validate_every: int = knob(
        0, "updates between validations; 0: once an epoch, but not within 50 updates", high=10**9
    )
    valid_translations: int = knob(
        200, "validation sentences translated for BLEU, chrF and exact match; 0: all", high=10**9
    )
    patience: int = knob(
        10, "validations without a better metric or loss before the cooldown, or, with none, the end; 0: never",
        high=10**9,
    )  # fmt: skip
    stop_at: float = knob(0.0, "end once bleu, chrf or exact_match reaches this in percent; 0: never", high=100.0)
    average_last: int = knob(5, "checkpoints averaged into the final model; paper: 5; 1: none", low=1, high=1000)
    on_divergence: Literal["stop", "restart"] = knob(
        "stop", "when a loss or gradient is not finite: end with an error, or go back to the last saved state with "
        "half the learning rate, up to three times",
    )  # fmt: skip
    log_every: int = knob(50, "updates between two lines of the log", low=1, high=10**9)
    save_minutes: float = knob(10.0, "most minutes between two saves of the state for resuming", low=0.01, high=1e7)
    tensorboard: bool = knob(False, "also write TensorBoard events (pip install '.[tensorboard]')")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.schedule == "noam" and self.peak_rate:
            raise ConfigError(
                f"train.peak_rate: found {self.peak_rate} with schedule 'noam', expected none: its peak follows from "
                "d_model and warmup. To choose the peak, set train.schedule=inverse_sqrt."
            )
        if self.schedule != "noam" and not self.peak_rate:
            raise ConfigError(
                f"train.peak_rate: found none with schedule {self.schedule!r}, expected a peak above 0. "
                "Set it, too: train.peak_rate=1e-3."
            )


# Post-norm gradients are large near the output at first, and need the paper's long warm-up; pre-norm ones do not
# (Xiong et al. 2020, arXiv 2002.04745).
WARMUP = {"post": 4000, "pre": 500}
