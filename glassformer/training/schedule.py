"""The learning rate of each update: the paper's equation 3, or the same curve with a peak and an end of one's own."""

from glassformer.config import TrainConfig


def learning_rate(update: int, config: TrainConfig, d_model: int) -> float:
    """The rate of update 1, 2, 3 ...: linear up to the peak at ``warmup``, then falling with 1 / √update.

    Equation 3, d_model^-0.5 · min(update^-0.5, update · warmup^-1.5), is this curve with the peak
    (d_model · warmup)^-0.5. In the last ``cooldown`` updates it is multiplied by what is left of them, so that it
    falls to nothing (Hägele et al. 2024, "Scaling Laws and Compute-Optimal Training Beyond Fixed Training
    Durations").
    """
    peak = (d_model * config.warmup) ** -0.5 if config.schedule == "noam" else config.peak_rate
    left = max(1, config.max_updates + 1 - update)  # with this update, so that the last one still moves
    remaining = min(1.0, left / (config.cooldown + 1))
    return float(peak * min(update / config.warmup, (config.warmup / update) ** 0.5) * remaining)
