"""The settings of a training."""

from dataclasses import dataclass
from typing import Literal

from glassformer.errors import ConfigError
from glassformer.settings.section import Section, knob

LIMITS = ("max_updates", "max_minutes", "patience", "stop_at")  # what ends a training


@dataclass(frozen=True, kw_only=True)
class TrainConfig(Section):
    """How a model is trained; the defaults are for small corpora."""

    seed: int = knob(1, "seed of weights, dropout and order", high=2**63 - 1)
    batch_tokens: int = knob(2048, "most rows of a batch times its longer side; paper: 25,000", low=1, high=10**8)
    bucket: int = knob(2, "lengths this close share batches: 1 pads least, more mixes better", low=1, high=1_000_000)
    accumulate: int = knob(1, "batches whose gradients make one update, in each process", low=1, high=10_000)
    max_updates: int = knob(100_000, "updates after which training ends; paper: 100,000", low=1, high=10**9)
    max_minutes: float = knob(0.0, "minutes of training after which it ends; 0: no limit", high=1e7)
    optimizer: Literal["adam", "muon"] = knob(
        "adam", "the paper's Adam; or Muon for the matrices of the layers, and Adam for all other weights"
    )
    schedule: Literal["noam", "inverse_sqrt", "constant"] = knob(
        "noam",
        "the paper's equation 3, with a peak from d_model and warmup; the same curve up to peak_rate; or peak_rate "
        "until the cooldown",
    )
    peak_rate: float = knob(0.0, "highest learning rate of inverse_sqrt and constant; 0 with noam")
    warmup: int = knob(
        0, "updates of linear warm-up; 0: 4000 (paper), or 500 with norm pre", symbol="warmup_steps", high=10**9
    )
    cooldown: float = knob(0.25, "last share, over which the rate falls linearly to zero; paper: 0", high=0.9)
    adam_beta1: float = knob(0.9, "decay of Adam's first moment", symbol="β1", high=0.99999)
    adam_beta2: float = knob(0.98, "decay of Adam's second moment", symbol="β2", high=0.99999)
    adam_eps: float = knob(1e-9, "added to Adam's denominator", symbol="ε", low=1e-12, high=1.0)
    clip_norm: float = knob(1.0, "largest global gradient norm; 0: no clipping, as in the paper")
    label_smoothing: float = knob(0.1, "probability spread evenly over the vocabulary", symbol="ε_ls", high=0.99)
    freeze: str = knob("", "modules or weights that are not trained, separated by commas: encoder, *.norm*")
    mix: float = knob(0.0, "share of the pairs of --mix, drawn again in each epoch; 0: half", high=0.99)
    r_drop: float = knob(
        0.0, "weight of R-Drop (Liang et al. 2021; there 5): two passes a batch; 0: one", symbol="α", high=100.0
    )
    precision: Literal["auto", "float32", "bf16"] = knob(
        "auto", "of products, weights stay float32; auto: bf16 on a GPU that has it, else float32"
    )
    compile: Literal["auto", "on", "off"] = knob(
        "auto", "torch.compile of layers and loss; auto: on a single GPU with Triton and a C compiler"
    )
    device: str = knob("auto", "where to train: auto, cpu, cuda, cuda:1 ...")
    threads: Literal["auto"] | int = knob(
        "auto", "of each process on a CPU; auto: OMP_NUM_THREADS, or else the fastest number", low=1, high=1024
    )
    sharding: Literal["none", "full"] = knob(
        "none", "each of several processes holds the whole model, or a shard of every weight, gradient and moment"
    )
    metric: Literal[
        "chrf", "bleu", "exact_match", "word_error_rate", "symbol_error_rate", "edit_distance", "loss"
    ] = knob(
        "chrf", "decides which checkpoint is best and which model is kept; tasks with one answer set exact_match"
    )
    validate_every: int = knob(0, "updates between validations; 0: an epoch, but at least 50 updates", high=10**9)
    valid_translations: int = knob(200, "sentences translated for BLEU, chrF and exact match; 0: all", high=10**9)
    patience: int = knob(
        10,
        "validations with no better metric or loss before the cooldown, or, with none, the end; 0: never",
        high=10**9,
    )
    stop_at: float = knob(0.0, "end once bleu, chrf or exact_match reaches this in percent; 0: never", high=100.0)
    average_last: int = knob(5, "checkpoints averaged into the final model; paper: 5; 1: none", low=1, high=1000)
    on_divergence: Literal["stop", "restart"] = knob(
        "stop", "of a loss that is not finite: end, or go back to the last state at half the rate, up to three times"
    )
    log_every: int = knob(50, "updates between two lines of the log", low=1, high=10**9)
    save_minutes: float = knob(10.0, "most minutes between two saves of the state for resuming", low=0.01, high=1e7)
    tensorboard: bool = knob(False, "also write TensorBoard events (pip install '.[tensorboard]')")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.schedule == "noam" and self.peak_rate:
            raise ConfigError(
                f"train.peak_rate: found {self.peak_rate} with schedule 'noam', expected none. To choose "
                "the peak, set train.schedule=inverse_sqrt."
            )
        if self.schedule != "noam" and not self.peak_rate:
            raise ConfigError(
                f"train.peak_rate: found none with schedule {self.schedule!r}, expected a peak above 0, as 1e-3."
            )


# Post-norm gradients are large near the output at first, and need the paper's long warm-up; pre-norm ones do not
# (Xiong et al. 2020, arXiv 2002.04745).
WARMUP = {"post": 4000, "pre": 500}
