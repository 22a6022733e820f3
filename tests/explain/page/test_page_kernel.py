"""The kernel of the page's searches computes x Wᵀ, and is what its source says."""

import shutil

import numpy as np
import pytest
from build_matmul import WORKER, build

BODY = """
  const weights = new Map(Object.entries(data.weights)), kernel = Kernel.create(weights);
  return Object.values(data.weights).map((one) => [kernel.has(one), kernel.has(one) && data.rows.map((rows) =>
    kernel.linear(data.x.slice(0, rows * one.shape[1]), one))]);"""
ROWS = [1, 2, 3, 16, 17, 37]
SHAPES = [(5, 4), (8, 12), (1, 16), (131, 64), (7, 6), (16,)]


def test_it_multiplies_rows_with_a_matrix(run_js) -> None:
    random = np.random.default_rng(3)
    matrices = [random.standard_normal(shape).astype("f4") for shape in SHAPES]
    x = random.standard_normal(max(ROWS) * 64).astype("f4")
    weights = {str(at): {"shape": list(one.shape), "data": one.ravel()} for at, one in enumerate(matrices)}
    found = run_js('import { Kernel } from "./worker/kernel.js";', BODY, {"weights": weights, "x": x, "rows": ROWS})
    for matrix, (has, outputs) in zip(matrices, found, strict=True):
        assert has == (matrix.ndim == 2 and matrix.shape[1] % 4 == 0)
        for rows, y in zip(ROWS, outputs or (), strict=False):
            expected = x[: rows * matrix.shape[1]].reshape(rows, -1).astype("f8") @ matrix.T.astype("f8")
            np.testing.assert_allclose(y.reshape(rows, -1), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.browser
def test_what_runs_is_made_of_the_source() -> None:
    assert shutil.which("npx"), "npx: not there. It comes with Node.js."
    assert (WORKER / "matmul.js").read_text(encoding="utf-8") == build()
