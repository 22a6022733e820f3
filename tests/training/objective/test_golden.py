"""The first 50 updates of ``tiny`` on the task ``dates``: their losses are those that stand in the repository.

    python tests/training/objective/test_golden.py        writes them anew, after a change that is meant to change them

Other processors round sums differently, and 50 updates carry that on: so the losses may differ by 1 in 1,000.
"""

import json
import sys
import tempfile
from pathlib import Path

import pytest
from recorded import Lines

from glassformer.training.request.arguments import TrainRequest
from glassformer.training.train import train

FILE = Path(__file__).parents[2] / "data" / "golden-losses.json"
OVERRIDES = [
    "train.max_updates=50", "train.log_every=1", "train.validate_every=50", "train.valid_translations=1",
    "train.average_last=1", "train.metric=loss", "decode.max_length_b=5",
]  # fmt: skip


def losses(home: Path) -> list[float]:
    request = TrainRequest.make(run=home / "run", data={"task": "dates"}, overrides=OVERRIDES)
    lines = Lines()
    train(request, lines)
    return [one.loss for one in lines.updates]


@pytest.mark.slow
def test_the_first_losses_are_those_of_the_repository(tmp_path: Path) -> None:
    expected = json.loads(FILE.read_text())
    assert len(expected) == 50
    assert expected[0] > 1.5 * expected[-1]  # something is learned
    assert losses(tmp_path) == pytest.approx(expected, rel=1e-3)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        FILE.write_text(json.dumps(losses(Path(scratch)), indent=0) + "\n")
    sys.exit()
