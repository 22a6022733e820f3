"""What a training says at its end of what it came to."""

from glassformer.training.evaluation.results import Example
from glassformer.training.reporting.diagnosis import describe


def test_a_training_that_kept_its_first_model_says_so_first_and_advises_no_longer_one() -> None:
    records = [{"update": update, "valid_loss": 1.5 + update / 100} for update in (0, 10, 20)]
    lines = describe([Example("a", "b", "b")], records, 90, kept_first=True)
    assert lines[0].startswith("Nothing was learned")
    assert "weights are those of the first model" in lines[0]
    assert lines[-1] == "The loss on held-out sentences rose from 1.50 to 1.70: more minutes will not help."
