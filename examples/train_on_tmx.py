"""Teach the bundled model the terms of a translation memory: 36 pairs of examples/data/house_style.tmx, in a minute.

    python examples/train_on_tmx.py [RUN]

In this memory a workspace is an *Arbeitsmappe* and to save is *sichern*. None of the sentences below is in it.
"""

import sys
from pathlib import Path

from rich.console import Console

from glassformer import Translator
from glassformer.training.reporting.display import open_display
from glassformer.training.request.arguments import TrainRequest
from glassformer.training.train import train

MEMORY = Path(__file__).parent / "data" / "house_style.tmx"
SENTENCES = [
    "Is the workspace empty?",
    "Do you want to share the workspace?",
    "Your note was deleted.",
    "I love you.",
]


def main(run: Path) -> None:
    settings = ["train.max_updates=40", "text.valid_pairs=4", "train.metric=loss"]
    request = TrainRequest.make(run=run, data={"pairs": str(MEMORY)}, init="bundled", overrides=settings)
    with open_display(Console()) as display:
        train(request, display)
    before, after = Translator.load().translate(SENTENCES), Translator.load(run).translate(SENTENCES)
    for old, new in zip(before, after, strict=True):
        print(f"\n{old.source}\n  before  {old.text}\n  after   {new.text}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/house_style"))
