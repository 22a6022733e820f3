"""Bytes packed as text for the page come back in Python and in the page, and no text ends its script element."""

import base64
import random

import pytest

from glassformer.explain.page.packing import pack, unpack

CASES = [b"", b"\0", b"\r\n<", bytes(1000), bytes(range(256)) * 40, random.Random(3).randbytes(70_001), b"<" * 999]
READ = 'import { unpack } from "./record/weights.js";'


@pytest.mark.parametrize("dense", [False, True], ids=["base64", "seven bits"])
def test_packed_bytes_come_back(run_js, dense: bool) -> None:
    texts = [pack(data, dense=dense) for data in CASES]
    assert [unpack(text) for text in texts] == CASES
    body = "return Promise.all(data.map(async (text) => Buffer.from(await unpack(text)).toString('base64')));"
    assert run_js(READ, body, texts) == [base64.b64encode(data).decode() for data in CASES]


def test_a_dense_text_has_no_character_that_html_changes() -> None:
    for data in CASES:
        text = pack(data, dense=True)
        assert not set("\0\r<") & set(text)
        assert len(text.encode()) <= 8 / 7 * len(pack(data)) * 3 / 4 + 16
