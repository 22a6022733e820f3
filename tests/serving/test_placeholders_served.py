"""Placeholders and tags of generated strings come back through a server's contract, or the answer says which do not."""

import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from serving_placeholders import is_whole, make_string


def test_generated_strings_come_back_whole_or_the_answer_says_so(client):
    draw = random.Random(7)
    strings = [make_string(draw) for _ in range(15)]
    body = {"text": [text for text, _ in strings], "source": "en", "target": "de"}
    found = client.post("/v1/translate", json=body).json()["translations"]
    for (source, codes), answer in zip(strings, found, strict=True):
        assert is_whole(source, codes, answer["text"]) or answer["check"], (source, answer)
