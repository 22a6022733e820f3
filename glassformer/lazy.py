"""Public names of a package that are loaded when first used."""

import ast
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def lazy_names(
    package: str, file: str, *eager: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` for imports under ``TYPE_CHECKING``."""
    blocks = [node.body for node in ast.parse(Path(file).read_text("utf-8")).body if isinstance(node, ast.If)]
    imports = [node for block in blocks for node in block if isinstance(node, ast.ImportFrom)]
    home_of = {alias.name: str(node.module) for node in imports for alias in node.names}
    public = sorted([*home_of, *eager])

    def get(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(home_of[name]), name)

    return get, lambda: public, public
