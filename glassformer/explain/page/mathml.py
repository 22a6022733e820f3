"""The equations of tap entries, in plain Unicode, as MathML."""

import re
from html import escape

_TOKEN = re.compile(
    r"(?P<space>\s+)|(?P<number>\d+(?:\.\d+)?)|(?P<word><[a-z]+>|(?:src|tgt)_[a-z]+|[^\W\d_₀-₉ₙₖᵀ′²³⁻]+)|(?P<sign>.)",
    re.DOTALL,
)
_NEXT_EQUATION = re.compile(r"(?<=\)),\s+(?=\w+\([^()]*\) = )")
_BELOW = dict(zip("₀₁₂₃₄₅₆₇₈₉ₙₖ", "0123456789nk", strict=True))
_ABOVE = {"ᵀ": "T", "′": "′", "²": "2", "³": "3", "⁻": "−"}
_CLOSES = {"(": ")", "[": "]", "{": "}", "‖": "‖"}
_SIGNS = frozenset("=+−-·→←≠≤≥<>;,:…|×∈~∝")
_WORD_SPACE = '<mspace width="0.3em"/>'


def to_mathml(equation: str) -> str:
    """``<math>`` for each equation; everything in them is escaped."""
    matches = map(_TOKEN.finditer, _NEXT_EQUATION.split(equation))
    parsers = (_Parser([(found.lastgroup or "sign", found.group()) for found in one]) for one in matches)
    return " ".join(f"<math>{parser.row(None)}</math>" for parser in parsers)


class _Parser:
    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self._tokens = tokens
        self._at = 0

    def _peek(self) -> tuple[str, str] | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _take(self) -> tuple[str, str]:
        self._at += 1
        return self._tokens[self._at - 1]

    def row(self, end: str | None) -> str:
        """Everything through ``end``; a product before ``/`` becomes a numerator."""
        done: list[str] = []
        product: list[str] = []
        while (token := self._peek()) is not None and token[1] != end:
            kind, text = token
            if kind == "space":
                self._take()
                product += [_WORD_SPACE] if product else []
            elif text == "/":
                self._take()
                product = [_fraction(product, self._denominator())]
            elif text in _SIGNS:
                self._take()
                done += [*_without_space(product), f"<mo>{escape(text)}</mo>"]
                product = []
            else:
                product.append(self._base_with_scripts())
        if token is not None:
            self._take()
        return f"<mrow>{''.join([*done, *_without_space(product)])}</mrow>"

    def _denominator(self) -> str:
        while (token := self._peek()) is not None and token[0] == "space":
            self._take()
        return _unwrap(self._base_with_scripts())

    def _base_with_scripts(self) -> str:
        base, below, above = self._atom(), "", ""
        while (token := self._peek()) is not None:
            text = token[1]
            if text in _BELOW or text in _ABOVE:
                self._take()
                below += f"<mi>{_BELOW[text]}</mi>" if text in _BELOW else ""
                above += f"<mo>{_ABOVE[text]}</mo>" if text in _ABOVE else ""
            elif text in ("_", "^") and self._at + 1 < len(self._tokens):
                self._take()
                script = _unwrap(self._atom())
                below, above = (below + script, above) if text == "_" else (below, above + script)
            else:
                break
        return _with_scripts(base, below, above)

    def _atom(self) -> str:
        token = self._peek()
        if token is None:
            return "<mrow></mrow>"
        kind, text = self._take()
        if text == "√":
            return f"<msqrt>{_unwrap(self._base_with_scripts())}</msqrt>"
        if text in ("−", "-"):
            return f"<mrow><mo>−</mo>{self._atom()}</mrow>"
        if text in _CLOSES:
            inner = self.row(_CLOSES[text])
            return f"<mrow><mo>{text}</mo>{inner}<mo>{_CLOSES[text]}</mo></mrow>"
        if kind == "number":
            return f"<mn>{text}</mn>"
        return f"<mi>{escape(text)}</mi>" if kind == "word" else f"<mo>{escape(text)}</mo>"


def _with_scripts(base: str, below: str, above: str) -> str:
    if below and above:
        return f"<msubsup>{base}<mrow>{below}</mrow><mrow>{above}</mrow></msubsup>"
    if below:
        return f"<msub>{base}<mrow>{below}</mrow></msub>"
    return f"<msup>{base}<mrow>{above}</mrow></msup>" if above else base


def _fraction(product: list[str], below: str) -> str:
    atoms = _without_space(product)
    above = _unwrap(atoms[0]) if len(atoms) == 1 else f"<mrow>{''.join(atoms)}</mrow>"
    return f"<mfrac>{above}{below}</mfrac>"


def _without_space(product: list[str]) -> list[str]:
    return product[:-1] if product and product[-1] == _WORD_SPACE else product


def _unwrap(atom: str) -> str:
    """Fractions, roots and scripts need no parentheses."""
    inner = re.fullmatch(r"<mrow><mo>\(</mo>(.*)<mo>\)</mo></mrow>", atom, re.DOTALL)
    return inner.group(1) if inner is not None else atom
