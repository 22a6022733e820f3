"""Files that nest something a hundred thousand times: each is read or refused in words, and no reader breaks down."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from glassformer.cli.streams import read_requests
from glassformer.decoding import Request
from glassformer.documents.translate_file import find_segments
from glassformer.errors import GlassformerError
from glassformer.run_directory import RunDirectory
from glassformer.settings.section import read_toml
from glassformer.text.corpus.corpus import read_pairs
from glassformer.text.formats import FormatOptions, find_format

DEEP = 100_000
LIST = "[" * DEEP + "]" * DEEP
TMX = (
    '<tmx version="1.4"><header srclang="en"/><body><tu><tuv xml:lang="en"><seg>{}</seg></tuv>'
    '<tuv xml:lang="de"><seg>b</seg></tuv></tu><tu><tuv xml:lang="en"><seg>{}</seg></tuv></tu></body></tmx>'
)
XLIFF = '<xliff version="1.2"><trans-unit id="1"><source>{}</source></trans-unit></xliff>'


def nested(name: str, depth: int) -> str:
    return f"<{name}>" * depth + "a" + f"</{name}>" * depth


FILES = {
    "hi.tmx": TMX.format(nested("hi", 1000), "c"), "deep.tmx": TMX.format(nested("hi", DEEP), nested("hi", DEEP)),
    "deep.xliff": XLIFF.format(nested("g", DEEP)),
    "groups.xliff": "<xliff>" + nested("group", DEEP) + "</xliff>",
    "deep.jsonl": '{"src": ' + LIST + ', "tgt": "b"}\n', "object.jsonl": '{"a":' * DEEP + "1" + "}" * DEEP + "\n",
    "deep.toml": f"a = {LIST}\n", "tables.toml": "[" + ".".join("a" * 20_000) + "]\n",
    "deep.html": nested("div", DEEP), "deep.md": ">" * 5000 + " a\n", "list.md": "".join("  " * n + "- a\n" for n in range(500)),
    "emphasis.md": "*a **b " * 3000 + "\n", "brackets.md": "[" * 20_000 + "\n", "config.json": LIST,
}  # fmt: skip


def read(path: Path) -> Iterator[object]:
    kind = path.suffix
    if kind == ".toml":
        yield read_toml(path)
    if path.name == "config.json":
        yield RunDirectory(path.parent).read_config()
    if kind in {".tmx", ".xliff", ".jsonl"}:
        yield from read_pairs(path)
    if kind == ".jsonl":
        yield from read_requests(path, Request(""))
    if find_format(path).segments is not None:
        yield from find_segments(path, FormatOptions())(path.read_text())


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_what_is_nested_without_end_is_read_or_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(FILES[name])
    results = read(path)
    while True:
        try:
            next(results)
        except StopIteration:
            break
        except GlassformerError as error:
            assert name in str(error)  # noqa: PT017 - either is well
            break


def test_a_thousand_nested_codes_are_read_as_the_text_in_them(tmp_path: Path) -> None:
    path = tmp_path / "a.tmx"
    path.write_text(FILES["hi.tmx"])
    assert [tuple(pair) for pair in read_pairs(path)] == [("a", "b")]
