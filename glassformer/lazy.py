"""Public names of a package that are loaded when first used, so that importing the package does not load PyTorch.

A type checker does not see them: each package also imports them, as themselves, where ``TYPE_CHECKING`` holds.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, modules: Mapping[str, Sequence[str]], *eager: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of a package whose ``modules`` have these public names.

    ``eager`` are the public names that the package has itself. An unknown name raises ``AttributeError``.
    """
    home_of = {name: f"{package}.{module}" for module, names in modules.items() for name in names}
    public = sorted([*home_of, *eager])

    def get(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(home_of[name]), name)

    return get, lambda: public, public
