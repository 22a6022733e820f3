"""A written page read back: its JSON, and the numbers of each tap."""

import json
import re
from typing import Any

import numpy as np

from glassformer.explain.page.packing import unpack


class PageReader:
    """What a browser finds in the file."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.record: dict[str, Any] = json.loads(unpack(self.script("record")))
        self.numbers = np.frombuffer(unpack(self.script("values")), dtype="<f4")

    def script(self, name: str) -> str:
        """The text of the script element with this id, as far as a browser reads it."""
        found = re.search(rf'<script type="[^"]+" id="{name}">(.*?)</script', self.text, re.DOTALL | re.IGNORECASE)
        assert found is not None, name
        return found.group(1)

    def value(self, sentence: int, address: str) -> np.ndarray:
        """The numbers of a tap in its shape."""
        tap = next(tap for tap in self.record["sentences"][sentence]["taps"] if tap["address"] == address)
        size, shape = int(np.prod(tap["shape"])), tap["shape"]
        found = self.numbers[tap["offset"] : tap["offset"] + size]
        if tap["by_position"]:
            return found.reshape(shape[0], shape[2], shape[1], shape[3]).swapaxes(1, 2)
        return found.reshape(shape)
