"""The model that ships with the package: a small English-German one, in a run directory with a model card.

``en-de/README.md`` is the card: data, how the model was made, what it scores, what it cannot do. All of it is written
by ``examples/bundled/pack.py``. Knows only where the directory is.
"""

from pathlib import Path

BUNDLED = Path(__file__).parent / "en-de"
CARD = BUNDLED / "README.md"
