"""The small English-German model that ships with the package, in a run directory with a model card.

``en-de/README.md`` is the card: its data, training, scores and limits. ``examples/bundled/pack.py`` writes all files.
"""

from pathlib import Path

BUNDLED = Path(__file__).parent / "en-de"
CARD = BUNDLED / "README.md"


def find_run(name: str | Path) -> Path:
    """The run directory of that name; ``bundled`` is the model that ships with the package."""
    return BUNDLED if str(name) == "bundled" else Path(name)
