"""The learning rate of each update: the paper's equation 3, or warm-up to a peak and inverse square root."""

from glassformer.config import TrainConfig


def learning_rate(update: int, config: TrainConfig, d_model: int) -> float:
    """The rate of update 1, 2, 3 ...

    noam: peak_rate · d_model^-0.5 · min(update^-0.5, update · warmup^-1.5), where the paper has peak_rate 1;
    inverse_sqrt: peak_rate · min(update / warmup, (warmup / update)^0.5).
    """
    if config.schedule == "noam":
        return float(config.peak_rate * d_model**-0.5 * min(update**-0.5, update * config.warmup**-1.5))
    return float(config.peak_rate * min(update / config.warmup, (config.warmup / update) ** 0.5))
