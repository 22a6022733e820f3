"""The page's file: assets inlined, record embedded, for browsers offline.

``file://`` has no modules or workers: they are ``data:`` URLs and a Blob.
"""

import base64
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from importlib.resources.abc import Traversable
from posixpath import dirname, join, normpath
from typing import Any, Literal

from glassformer.decoding import Translator
from glassformer.errors import ConfigError
from glassformer.explain.page.packing import pack
from glassformer.explain.page.page_record import MAX_NUMBERS, Block, record_mapping
from glassformer.explain.page.weights import MAX_PARAMETERS, count_parameters, pack_model
from glassformer.explain.recording.walk_data import WalkData

_ASSETS = files("glassformer.explain.page") / "assets"
_IMPORT = re.compile(r'(?P<before>\b(?:from|import)\s+)"(?P<path>\.\.?/[\w./-]+\.js)"')
_IMPORT_LINE = re.compile(r"^import\b.*?;\s*$", re.MULTILINE | re.DOTALL)
_EXPORT = re.compile(r"^export (?=(?:async |class|const|function|let))", re.MULTILINE)
_START = "translate/main.js"
_WORKER = "worker/"
_SHARED = "record/weights.js"  # the worker's model, the page's weights
_CLIENT = "worker/translator.js"  # speaks to the worker, and so is the page's
_STYLES = (
    "base",
    "bands",
    "figure",
    "middle",
    "number",
    "distribution",
    "text",
    "explanation",
    "narrow",
    "translate",
)

FRAME_HEIGHT = 760  # pixels
MAX_FRAME_NUMBERS = 1_200_000
"""The float32 numbers of a notebook's page: 5 MB."""
_SANDBOX = "allow-scripts allow-downloads"  # opaque origin: no notebook, no server
_FRAME_STYLE = "width:100%;border:1px solid #8886;border-radius:8px;background:transparent"


def page_html(
    walk: WalkData,
    translator: Translator | None = None,
    *,
    run: str = "",
    run_option: str | None = None,
    most: int = MAX_NUMBERS,
    first: Literal["translate", "inside"] = "inside",
    dense: bool = False,
) -> str:
    """A walk's page as HTML, with the translator's model if small enough.

    ``run``: the model's name; ``run_option``: in commands (None: Python); ``most``: numbers; ``first``: the view that
    it opens with; ``dense``: with fewer bytes, by characters that a file may have, and a notebook would escape.
    ``ConfigError`` for a page that is to translate and a model that is too large.
    """
    block = Block(most)
    still = _why_recorded(translator)
    if still and first == "translate":
        raise ConfigError(
            f"page: {still[0].lower()}{still[1:]} Expected a smaller model: distill it, or serve this one."
        )
    record = {**record_mapping(walk, block), "run": run, "run_option": run_option, "still": still}
    scripts = {"record": _to_json(record), "values": block.to_bytes()}
    if translator is not None and not still:
        living = pack_model(translator)
        scripts |= {"weights": living.pop("weights"), "living": _to_json(living), "worker": _worker_source().encode()}
    return _PAGE.format(
        title=escape(f"glassformer: {walk.sentences.sources[0]}"[:120]),
        css="\n".join(_read(f"styles/{name}.css") for name in _STYLES),
        import_map=import_map({name: _read(name) for name in _modules() if not _is_of_worker(name)}),
        scripts="\n".join([_script(name, pack(data, dense=dense)) for name, data in scripts.items()]),
        start=_START,
        first=first,
    )


@dataclass(frozen=True)
class PageFrame:
    """A page in an iframe; viewers without iframes show ``fallback``."""

    page: str = field(repr=False)
    fallback: str = field(repr=False)
    height: int = FRAME_HEIGHT

    def _repr_html_(self) -> str:
        text = self.page.replace("&", "&amp;").replace("'", "&#39;")
        return (
            f"<iframe title='glassformer' sandbox='{_SANDBOX}' loading='lazy' height='{self.height}' "
            f"style='{_FRAME_STYLE}' srcdoc='{text}'></iframe>"
            f"<details><summary>The same heads as still pictures</summary>{self.fallback}</details>"
        )


def _why_recorded(translator: Translator | None) -> str:
    if translator is None:
        return "The recorded pass. The method frame() of this walk shows the page that computes."
    parameters = count_parameters(translator.model)
    if parameters <= MAX_PARAMETERS:
        return ""
    return f"The recorded pass: the model has {parameters / 1e6:.0f} million parameters, too many to compute here."


_PAGE = """<!doctype html>
<html lang="en" data-first="{first}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; \
script-src 'unsafe-inline' 'wasm-unsafe-eval' data: blob:; style-src 'unsafe-inline'; img-src data: blob:; \
worker-src blob:">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>
{css}
</style>
<script type="importmap">{import_map}</script>
</head>
<body>
<div id="translate" hidden></div>
<div id="app"><noscript>This page computes and draws with JavaScript, which is switched off.</noscript></div>
{scripts}
<script type="module">import "page/{start}";</script>
</body>
</html>
"""


def _to_json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def _script(name: str, text: str) -> str:
    return f'<script type="text/plain" id="{name}">{text}</script>'


def _read(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")


def _modules(folder: Traversable = _ASSETS, path: str = "") -> Iterator[str]:
    """JavaScript modules by path, such as ``views/tour.js``, sorted."""
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _modules(entry, f"{path}{entry.name}/")
        elif entry.name.endswith(".js"):
            yield path + entry.name


def import_map(modules: Mapping[str, str]) -> str:
    """Modules by bare names: ``data:`` URLs have no relative paths."""
    return json.dumps({"imports": {f"page/{name}": _data_url(name, source) for name, source in modules.items()}})


def _data_url(name: str, source: str) -> str:
    def bare(found: re.Match[str]) -> str:
        return f'{found["before"]}"page/{normpath(join(dirname(name), found["path"]))}"'

    return "data:text/javascript;base64," + base64.b64encode(_IMPORT.sub(bare, source).encode()).decode("ascii")


def _is_of_worker(name: str) -> bool:
    return name.startswith(_WORKER) and name != _CLIENT


def _worker_source() -> str:
    """The computing modules as one script."""
    names = (_SHARED, *filter(_is_of_worker, _modules()))
    return "\n".join(_EXPORT.sub("", _IMPORT_LINE.sub("", _read(name))) for name in names)
