"""One equation: what a step must be, from what its scope gives; None where this very step is given."""

from collections.abc import Callable

from torch import Tensor

from glassformer.explain.equations.scope import Scope

Equation = Callable[[Scope], Tensor | None]
Table = dict[str, Equation]
