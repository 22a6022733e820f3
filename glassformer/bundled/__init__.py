"""The small English-German model that ships with the package; ``examples/bundled/pack.py`` writes its files."""

from pathlib import Path

BUNDLED = Path(__file__).parent / "en-de"
CARD = BUNDLED / "README.md"


def find_run(name: str | Path) -> Path:
    """The run directory of that name; ``bundled`` is the model that ships with the package."""
    return BUNDLED if str(name) == "bundled" else Path(name)
