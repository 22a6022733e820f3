"""Layers, heads, positions and sentences count from 0 in everything that is written, as addresses do."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import glassformer
from glassformer.explain import Walk

ROOT = Path(glassformer.__file__).parent.parent
COUNTED = r"(?:layer|head|position|sentence|step|token|query|key)s?"
# `layer {layer + 1}` in Python, `layer ${app.layers.decoder + 1}` in JavaScript
FROM_ONE = re.compile(rf"(?i)\b{COUNTED}[^{{}}\n]{{0,12}}\$?\{{[^{{}}\n]*\+ 1\)?\}}|counted from 1")
STARTS_AT_ONE = re.compile(
    r"enumerate\((?:\w+\.)*(?:layers|heads|weights|attention|positions|sentences)\b[^\n]*, (?:start=)?1\)"
)
NUMBERED = re.compile(r"(?i)\b(encoder layer|decoder layer|layer|head|sentence|token|row)s? ?(\d+)(?: to (\d+))?")
NOT_COUNTED = {"record.py", "tracing.md"}  # the numbers of a trace's steps in a file, which are names


def numbers_in(text: str) -> dict[str, set[int]]:
    """The numbers behind each word."""
    found: dict[str, set[int]] = {}
    for word, *numbers in NUMBERED.findall(text):
        found.setdefault(word.lower().replace("encoder ", ""), set()).update(int(one) for one in numbers if one)
    return found


def sources() -> Iterator[Path]:
    """Package, page and documentation."""
    yield from (ROOT / "glassformer").rglob("*.py")
    yield from (ROOT / "glassformer" / "explain" / "page" / "assets").rglob("*.js")
    yield from (ROOT / "docs").glob("*.md")
    yield from (ROOT / "examples").rglob("*.py")


def test_nothing_is_written_with_1_added():
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in sources()
        if path.name not in NOT_COUNTED
        for pattern in (FROM_ONE, STARTS_AT_ONE)
        for match in pattern.finditer(path.read_text(encoding="utf-8"))
    ]
    assert not found, "\n".join(found)


def renderings(walked: Walk, printed) -> Iterator[str]:
    yield printed(walked, values=True)
    yield printed(walked, all_layers=True)
    yield printed(walked)
    for sentence in range(len(walked.sentences.sources)):
        yield walked.to_markdown(values=True, sentence=sentence)
    yield walked._repr_html_()
    yield json.dumps([step["stage"] for step in walked.to_mapping()["steps"]])


@pytest.mark.parametrize(
    "kind",
    [
        "walked",
        pytest.param("searched", marks=pytest.mark.slow),
        "sampled",
        pytest.param("trained", marks=pytest.mark.slow),
    ],
)
def test_every_rendering_counts_from_0(kind, printed, request):
    walked = request.getfixturevalue(kind)
    limits = {
        "layer": walked.config.n_encoder_layers, "decoder layer": walked.config.n_decoder_layers,
        "head": walked.config.n_heads, "sentence": len(walked.sentences.sources),
    }  # fmt: skip
    whole = numbers_in("\n".join(renderings(walked, printed)))
    for word, limit in limits.items():
        assert max(whole.get(word, {0})) < limit, word
    assert 0 in whole["layer"]
    assert 0 in whole["decoder layer"]
    if "row" in whole:
        assert 0 in whole["row"]
    if kind in ("searched", "sampled"):
        assert 0 in whole["token"]
