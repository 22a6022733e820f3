"""The small English-German model that ships with the package, in a run directory with a model card.

``en-de/README.md`` is the card: its data, training, scores and limits. ``examples/bundled/pack.py`` writes all files.
"""

from pathlib import Path

BUNDLED = Path(__file__).parent / "en-de"
CARD = BUNDLED / "README.md"
