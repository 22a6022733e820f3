"""Layer norm, and "Add & Norm" in both orders. Figure 1 and section 3.1; Ba et al. 2016 (arXiv 1607.06450)."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from glassformer.model.dropout import Dropout
from glassformer.settings import ModelConfig
from glassformer.trace import is_tracing, show, tap


class LayerNorm(nn.Module):
    """gain · (x - mean) / √(variance + ε) + bias, over d_model, with the biased variance.

    One fused kernel computes it and hands out the mean and 1 / √(variance + ε) that it used; while a trace
    records, these are shown as the steps in between.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.eps = config.norm_eps
        self.gain = nn.Parameter(torch.ones(config.d_model))
        self.bias = nn.Parameter(torch.zeros(config.d_model))

    def forward(self, x: Float[Tensor, "batch position d_model"]) -> Float[Tensor, "batch position d_model"]:
        """``x`` with each position's vector centred, scaled to unit variance, then by gain and bias."""
        gain = self.gain
        if x.dtype != gain.dtype:
            x = x.to(gain.dtype)  # under bf16 the statistics stay in float32
        output, mean, inverse_deviation = torch.native_layer_norm(x, gain.shape, gain, self.bias, self.eps)
        if is_tracing():
            show(self, "mean", lambda: mean.squeeze(-1), "batch position")
            show(self, "variance", lambda: (inverse_deviation**-2 - self.eps).squeeze(-1), "batch position")
            show(self, "normalised", lambda: (x - mean) * inverse_deviation, "batch position d_model")
        return tap(self, "output", output, "batch position d_model")


class AddAndNorm(nn.Module):
    """The residual connection round a sublayer and its layer norm: LayerNorm(x + Sublayer(x)), section 3.1.

    Differs from the paper: with ``norm = "pre"`` it is x + Sublayer(LayerNorm(x)), and each stack ends with a norm.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.pre = config.norm == "pre"
        self.norm = LayerNorm(config)
        self.dropout = Dropout(config.dropout)

    def before(self, x: Float[Tensor, "batch position d_model"]) -> Float[Tensor, "batch position d_model"]:
        """What the sublayer is given."""
        return self.norm(x) if self.pre else x

    def after(
        self, x: Float[Tensor, "batch position d_model"], sublayer: Float[Tensor, "batch position d_model"]
    ) -> Float[Tensor, "batch position d_model"]:
        """The sum of the residual and the sublayer's output, which is dropped out (section 5.4)."""
        residual = x + self.dropout(sublayer)
        residual = tap(self, "residual", residual, "batch position d_model")
        return residual if self.pre else self.norm(residual)
