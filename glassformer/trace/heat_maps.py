"""Attention as heat maps for notebooks: all heads of a layer side by side, large on demand.

Inline SVG without scripts; labels are escaped. Knows tensors and labels, not models.
"""

import base64
import struct
import zlib
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

import torch
from torch import Tensor

from glassformer.trace.palette import INK

_COLOUR = bytes.fromhex(INK[1:])  # with an opacity for each cell, which suits light and dark notebooks
_MAX_POSITIONS = 80
_SMALL, _LARGE_CELL, _LETTER = 72, 22, 7
_ROW = "display:flex;flex-wrap:wrap;gap:8px;align-items:flex-end"


class Heads(NamedTuple):
    """The weights of one layer, (heads query key), with labels of queries and keys."""

    title: str
    weights: Tensor
    queries: Sequence[str]
    keys: Sequence[str]


def reads_and_writes(read: Sequence[str], written: Sequence[str]) -> list[str]:
    """The label of each target position: the tokens that are read and written there."""
    return [f"reads {one} → writes {other}" for one, other in zip(read, written, strict=True)]


def heads_html(layers: Sequence[Heads]) -> str:
    """A line a layer with a small map of every head, which unfolds to large ones."""
    return "".join(_layer(one) for one in layers)


def _layer(heads: Heads) -> str:
    title = escape(heads.title)
    _, n_queries, n_keys = heads.weights.shape
    if max(n_queries, n_keys) > _MAX_POSITIONS or not heads.weights.numel():
        return f"<p><b>{title}</b> {n_queries} × {n_keys}: too many positions for a small picture</p>"
    small = "".join(_small(weights, f"{heads.title}, head {at}") for at, weights in enumerate(heads.weights))
    large = "".join(_large(weights, heads, at) for at, weights in enumerate(heads.weights))
    return (
        f'<details><summary><b>{title}</b><div style="{_ROW}">{small}</div></summary>'
        f'<div style="{_ROW}">{large}</div></details>'
    )


def _small(weights: Tensor, title: str) -> str:
    cell = _SMALL / max(weights.shape)
    width, height = weights.shape[1] * cell, weights.shape[0] * cell
    return _svg(width, height, title, _frame(0, 0, width, height) + _cells(weights, 0, 0, cell))


def _large(weights: Tensor, heads: Heads, number: int) -> str:
    left = 12 + _LETTER * max(map(len, heads.queries), default=0)
    top = 26 + _LETTER * max(map(len, heads.keys), default=0)
    width, height = weights.shape[1] * _LARGE_CELL, weights.shape[0] * _LARGE_CELL
    middle = _LARGE_CELL / 2 + 4
    rows = "".join(
        f'<text x="{left - 6}" y="{top + at * _LARGE_CELL + middle:g}" text-anchor="end">{escape(label)}</text>'
        for at, label in enumerate(heads.queries)
    )
    columns = "".join(
        f'<text transform="translate({left + at * _LARGE_CELL + middle:g} {top - 6}) rotate(-90)">'
        f"{escape(label)}</text>"
        for at, label in enumerate(heads.keys)
    )
    name = f'<text x="0" y="14" font-weight="bold">head {number}</text>'
    drawn = f"{name}{rows}{columns}{_frame(left, top, width, height)}{_cells(weights, left, top, _LARGE_CELL)}"
    return _svg(left + width + 2, top + height + 2, f"{heads.title}, head {number}", drawn)


def _svg(width: float, height: float, title: str, drawn: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" role="img" '
        f'font-family="sans-serif" font-size="12" fill="currentColor"><title>{escape(title)}</title>{drawn}</svg>'
    )


def _frame(x: float, y: float, width: float, height: float) -> str:
    box = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"'
    return f'<rect {box} fill="none" stroke="{INK}" stroke-opacity="0.35"/>'


def _cells(weights: Tensor, left: float, top: float, cell: float) -> str:
    """The weights as an image, a pixel a cell: a twentieth of the size of rectangles."""
    rows, columns = weights.shape
    place = f'x="{left:g}" y="{top:g}" width="{columns * cell:g}" height="{rows * cell:g}"'
    data = base64.b64encode(_png(weights)).decode("ascii")
    return (
        f'<image {place} preserveAspectRatio="none" style="image-rendering:pixelated" '
        f'href="data:image/png;base64,{data}"/>'
    )


def _png(weights: Tensor) -> bytes:
    """A PNG in one colour, whose opacity is the weight."""
    rows, columns = weights.shape
    opacity = (weights.clamp(0, 1) * 255).round().to(torch.uint8).tolist()
    lines = b"".join(b"\0" + b"".join(_COLOUR + bytes([one]) for one in line) for line in opacity)
    header = struct.pack(">IIBBBBB", columns, rows, 8, 6, 0, 0, 0)  # 8 bits each of red, green, blue and opacity
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in ((b"IHDR", header), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    )
