"""Two models decide together. Each learns to read dates from its own first weights; then all are compared.

    python examples/ensemble.py [DIRECTORY]

An ensemble averages the probabilities of its models at every step. The models must share their tokenizers.
"""

import sys
from pathlib import Path

from glassformer import DecodeConfig, Translator
from glassformer.tasks import load_task
from glassformer.training.evaluation.evaluation import translate_and_score
from glassformer.training.reporting.run_log import Display
from glassformer.training.request.arguments import TrainRequest
from glassformer.training.train import train


def main(directory: Path) -> None:
    runs = [directory / f"seed{seed}" for seed in (1, 2)]
    for seed, run in enumerate(runs, 1):
        print(f"training {run} ...", flush=True)
        settings = [f"train.seed={seed}", "train.max_updates=300", "text.valid_pairs=100"]
        request = TrainRequest.make(run=run, data={"task": "dates"}, overrides=settings)
        train(request, Display())
    test = load_task("dates").test[:200]
    for name, places in (("seed 1", runs[:1]), ("seed 2", runs[1:]), ("together", runs)):
        scores, _ = translate_and_score(Translator.load(places), test, DecodeConfig(beam=1))
        print(f"{name:9} {scores['exact_match']:5.1f} % of {len(test)} unseen dates exactly right")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/ensemble"))
