"""The learning rate of each update: the paper's equation 3, or the same curve with a peak of one's own."""

from glassformer.config import TrainConfig


def learning_rate(update: int, config: TrainConfig, d_model: int) -> float:
    """The rate of update 1, 2, 3 ...: linear up to the peak at ``warmup``, then falling with 1 / √update.

    Equation 3, d_model^-0.5 · min(update^-0.5, update · warmup^-1.5), is this curve with the peak
    (d_model · warmup)^-0.5. What a cooldown leaves of it is not counted here: see ``limits``.
    """
    peak = (d_model * config.warmup) ** -0.5 if config.schedule == "noam" else config.peak_rate
    return float(peak * min(update / config.warmup, (config.warmup / update) ** 0.5))
