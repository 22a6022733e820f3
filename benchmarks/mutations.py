"""The small changes of a source that a test should notice: an operator, a number or a condition is another one.

Not changed are annotations, decorators, docstrings, what an error says, and texts: they are what a reader sees, and
other tests hold them.
"""

import ast
import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

OPERATORS: dict[type[ast.AST], tuple[str, type[Any], str]] = {
    ast.Add: ("+", ast.Sub, "-"), ast.Sub: ("-", ast.Add, "+"), ast.Mult: ("*", ast.Div, "/"),
    ast.Div: ("/", ast.Mult, "*"), ast.FloorDiv: ("//", ast.Mult, "*"), ast.Mod: ("%", ast.FloorDiv, "//"),
    ast.Pow: ("**", ast.Mult, "*"), ast.BitAnd: ("&", ast.BitOr, "|"), ast.BitOr: ("|", ast.BitAnd, "&"),
    ast.Lt: ("<", ast.LtE, "<="), ast.LtE: ("<=", ast.Lt, "<"), ast.Gt: (">", ast.GtE, ">="),
    ast.GtE: (">=", ast.Gt, ">"), ast.Eq: ("==", ast.NotEq, "!="), ast.NotEq: ("!=", ast.Eq, "=="),
    ast.Is: ("is", ast.IsNot, "is not"), ast.IsNot: ("is not", ast.Is, "is"), ast.In: ("in", ast.NotIn, "not in"),
    ast.NotIn: ("not in", ast.In, "in"), ast.And: ("and", ast.Or, "or"), ast.Or: ("or", ast.And, "and"),
}  # fmt: skip
BUILT_IN = {"min": "max", "max": "min", "any": "all", "all": "any"}
METHODS = {
    **BUILT_IN, "amax": "amin", "amin": "amax", "argmax": "argmin", "triu": "tril", "tril": "triu", "sin": "cos",
    "cos": "sin", "sum": "mean", "mean": "sum", "softmax": "log_softmax", "log_softmax": "softmax", "zeros": "ones",
    "ones": "zeros", "zeros_like": "ones_like",
}  # fmt: skip
_SIGNS = {ast.Not: "not", ast.USub: "-", ast.Invert: "~"}
_SHOWN = 48  # characters of the changed source in a name


@dataclass(frozen=True)
class Mutant:
    """One change: ``new`` in place of the bytes from ``start`` to ``end`` of ``file``, a path below the package."""

    name: str
    file: str
    start: int
    end: int
    new: str

    def source(self, package: Path) -> bytes:
        """The file with the change."""
        text = (package / self.file).read_bytes()
        return text[: self.start] + self.new.encode() + text[self.end :]

    def rank(self, seed: int) -> str:
        """Its place in the order of a seed: a sample is the first so many, and stays when others come and go."""
        return hashlib.sha256(f"{seed} {self.name}".encode()).hexdigest()


def find_mutants(package: Path, file: str) -> list[Mutant]:
    """Every mutant of a file, in the order of the source. A name tells where and what; a second of a kind is (2)."""
    text = (package / file).read_text(encoding="utf-8")
    starts = [0]
    for line in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    names: Counter[str] = Counter()
    mutants = []
    for where, node, label, changed in _walk(ast.parse(text), ""):
        start, end = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
        shown = " ".join(ast.unparse(node).split())
        name = f"{file}{where and ' '}{where}: {label} in {shown[:_SHOWN]}{'…' * (len(shown) > _SHOWN)}"
        names[name] += 1
        name += f" ({names[name]})" if names[name] > 1 else ""
        new = ast.unparse(changed)
        mutants.append(Mutant(name, file, start, end, new if isinstance(changed, ast.stmt) else f"({new})"))
    return mutants


def _walk(node: ast.AST, where: str) -> Iterator[tuple[str, Any, str, ast.AST]]:
    """Each change below a node: in which function, what is changed, in words, and what stands there instead."""
    if isinstance(node, ast.Raise | ast.JoinedStr | ast.Assert | ast.Import | ast.ImportFrom):
        return
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        where = f"{where}.{node.name}".lstrip(".")
    if isinstance(node, ast.If | ast.While | ast.IfExp) and isinstance(
        node.test, ast.Name | ast.Attribute | ast.Call
    ):
        if ast.unparse(node.test) == "TYPE_CHECKING":
            return
        yield where, node.test, "condition turned round", ast.UnaryOp(ast.Not(), node.test)
    for label, changed in _changes(node):
        yield where, node, label, changed
    for field, value in ast.iter_fields(node):
        if field not in {"annotation", "returns", "decorator_list", "bases"}:
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from _walk(child, where)


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """What may stand in place of one node, with the change in words."""
    match node:
        case ast.BinOp(op=ast.BitOr(), right=ast.Constant(value=None)):
            return  # a type
        case ast.BinOp() | ast.BoolOp() | ast.AugAssign() if type(node.op) in OPERATORS:
            old, other, new = OPERATORS[type(node.op)]
            yield f"{old} is {new}", _with(node, op=other())
        case ast.Compare(ops=[op]):
            old, other, new = OPERATORS[type(op)]
            yield f"{old} is {new}", _with(node, ops=[other()])
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _SIGNS:
            yield f"without {_SIGNS[type(op)]}", operand
        case ast.Constant(value=bool() | int() | float()):
            yield from _other_value(node)
        case ast.Call():
            yield from _other_function(node)
        case ast.Expr(value=ast.Call()):
            yield "left out", ast.Pass()
        case ast.Break() | ast.Continue():
            yield "break and continue exchanged", ast.Continue() if isinstance(node, ast.Break) else ast.Break()


def _other_value(node: ast.Constant) -> Iterator[tuple[str, ast.AST]]:
    """The other truth value, the next integer, twice the number."""
    value: Any = node.value
    other = not value if isinstance(value, bool) else value + 1 if isinstance(value, int) else 2 * value or 1.0
    yield f"{value} is {other}", _with(node, value=other)


def _other_function(node: ast.Call) -> Iterator[tuple[str, ast.AST]]:
    """A call of the function that is most easily mistaken for it."""
    match node.func:
        case ast.Name(id=name) if name in BUILT_IN:
            yield f"{name} is {BUILT_IN[name]}", _with(node, func=_with(node.func, id=BUILT_IN[name]))
        case ast.Attribute(attr=name) if name in METHODS:
            yield f"{name} is {METHODS[name]}", _with(node, func=_with(node.func, attr=METHODS[name]))


def _with(node: Any, **fields: Any) -> Any:
    """A copy of a node with other fields."""
    return type(node)(**{**dict(ast.iter_fields(node)), **fields})
