"""Builds the site: pages are copied to build/site-source, with contents, notebooks and an API reference; then Sphinx.

    python docs/site/build.py           writes build/site; a warning is an error

The pages keep their places, so that their links hold. A link to a file that is no page leads to a copy of it. The
living page of the bundled model is ``try.html``. Where a lesson says "See it live", it stands below in a fold, at the
address that the lesson names: one page for all, which a browser reads when the fold is opened.
"""

import json
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from functools import partial
from pathlib import Path

SITE = Path(__file__).resolve().parent
ROOT = SITE.parents[1]
sys.path[:0] = [str(SITE), str(ROOT / "docs")]

from pictures import plain_pictures, with_variants  # noqa: E402
from reference.address import fill_addresses  # noqa: E402
from sections import read_sections  # noqa: E402

SOURCE, OUT = ROOT / "build" / "site-source", ROOT / "build" / "site"
TOP = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")
TRY, SENTENCE = "try.html", "I am hungry."
GROUPS = {
    "Use": [
        "docs/howto", "docs/training", "docs/translating", "docs/translator_page", "docs/translators", "docs/serving",
        "docs/exchange", "docs/scaling", "docs/errors", "examples/README",
    ],
    "Look inside": [
        "docs/page", "docs/tracing", "docs/interpretability", "docs/steps", "docs/differences",
    ],
    "Learn": ["docs/learn/index", "docs/learn/pages/*", "docs/learn/slips"],
    "Measured": ["docs/results", "docs/speed", "docs/reliability"],
    "Reference": [
        "docs/commands", "docs/settings", "api", "docs/index", "docs/design", "CONTRIBUTING", "CHANGELOG", "card",
    ],
}  # fmt: skip
EXPLAIN = (
    "walk", "Walk", "record_pass", "print_walk", "print_attention", "print_heads", "print_heatmap", "narrate_step",
    "save_activations",
)  # fmt: skip
ATTRIBUTION = (
    "direct_logit_attribution", "logit_lens", "occlusion", "patch_sweep", "attribution_patching", "path_patching",
    "integrated_gradients",
)  # fmt: skip
_LIVE = re.compile(r"^(- )?\*\*See it live:\*\*(?:(?!\n\n|\n- ).)+", re.M | re.S)
_ADDRESS = re.compile(r"`(#[\w.]+)`")
_FRAME = (
    "<details>\n<summary>The living page, here ({size:.0f} MB)</summary>\n"
    f'<iframe title="The living page" loading="lazy" src="../../../{TRY}{{address}}" '
    'style="width: 100%; height: 45rem; max-height: 90vh; border: 1px solid #8886"></iframe>\n</details>'
)
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s#:]+)(#[^)\s]*)?\)")


def prepare() -> None:
    """Write the tree that Sphinx reads."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    shutil.copytree(
        ROOT / "docs", SOURCE / "docs", ignore=shutil.ignore_patterns("*.py", "site", "reference", "__pycache__")
    )
    for name in TOP:
        shutil.copy(ROOT / name, SOURCE / name)
    readme = SOURCE / "README.md"
    readme.write_text(fill_addresses(readme.read_text(encoding="utf-8"), try_page=TRY), encoding="utf-8")
    (SOURCE / "examples").mkdir()
    shutil.copy(ROOT / "examples" / "README.md", SOURCE / "examples" / "README.md")
    shutil.copy(SITE / "conf.py", SOURCE / "conf.py")
    shutil.copytree(SITE / "static", SOURCE / "_static")
    shutil.copytree(SITE / "templates", SOURCE / "_templates")
    size_mb = write_living_page(SOURCE / "extra" / TRY)
    for page in (SOURCE / "docs" / "learn" / "pages").glob("*.md"):
        page.write_text(embed_living_page(page.read_text(encoding="utf-8"), size_mb), encoding="utf-8")
    _write_notebooks(SOURCE / "docs" / "learn" / "notebooks")
    (SOURCE / "api.md").write_text(api_page(), encoding="utf-8")
    card = (ROOT / "glassformer" / "bundled" / "en-de" / "README.md").read_text(encoding="utf-8")
    (SOURCE / "card.md").write_text(card, encoding="utf-8")
    for page in sorted(SOURCE.rglob("*.md")):
        place = (
            ROOT / "glassformer" / "bundled" / "en-de"
            if page.name == "card.md"
            else ROOT / page.parent.relative_to(SOURCE)
        )
        text = plain_pictures(page.read_text(encoding="utf-8"))
        page.write_text(_LINK.sub(partial(_resolve, page=page, place=place), text), encoding="utf-8")
    (SOURCE / "_static" / "sections.js").write_text(sections_js(_pages(SOURCE)), encoding="utf-8")
    (SOURCE / "index.md").write_text(contents(), encoding="utf-8")


def write_living_page(path: Path) -> float:
    """The living page of the bundled model; returns its MB."""
    from glassformer import Translator
    from glassformer.explain import walk
    from glassformer.explain.page.writer import page_html

    path.parent.mkdir(parents=True)
    translator = Translator.load()
    page = page_html(
        walk(translator, [SENTENCE]), translator, run="en-de", run_option="", dense=True, first="translate"
    )
    path.write_text(page, encoding="utf-8")
    return path.stat().st_size / 1e6


def embed_living_page(lesson: str, size_mb: float) -> str:
    """A lesson's page with the living page below each "See it live", in a fold, at the address given there."""

    def add_frame(live: re.Match[str]) -> str:
        address = _ADDRESS.search(live[0])
        frame = _FRAME.format(size=size_mb, address=address[1] if address else "")
        return f"{live[0]}\n\n{textwrap.indent(frame, '  ' * bool(live[1]))}\n"

    return _LIVE.sub(add_frame, lesson)


def _resolve(link: re.Match[str], page: Path, place: Path) -> str:
    """A link to a page as it is; to another file, a link to a copy; to a folder or to nothing, only its words."""
    target = (place / link[3]).resolve()
    if target == ROOT / "glassformer" / "bundled" / "en-de" / "README.md" and page.name != "card.md":
        up = "../" * len(page.parent.relative_to(SOURCE).parts)
        return f"[{link[2]}]({up}card.md{link[4] or ''})"
    if not target.is_file() or not target.is_relative_to(ROOT):
        return link[2]
    copy = SOURCE / target.relative_to(ROOT)
    if not copy.exists():
        if target.suffix == ".md":
            return link[2]
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(target, copy)
    path = f"{'../' * len(page.parent.relative_to(SOURCE).parts)}{target.relative_to(ROOT).as_posix()}"
    return with_variants(link[2], path, target) if link[1] else f"[{link[2]}]({path}{link[4] or ''})"


def _pages(root: Path) -> dict[str, Path]:
    """The pages below a directory by their names in the site; the README is the first page."""
    named = {path.relative_to(root).with_suffix("").as_posix(): path for path in sorted(root.rglob("*.md"))}
    return {"index" if name == "README" else name: path for name, path in named.items()}


def committed_pages() -> dict[str, Path]:
    """The pages that are in the repository; the site has more, which it makes."""
    card = ROOT / "glassformer" / "bundled" / "en-de" / "README.md"
    top = {"index" if name == "README.md" else Path(name).stem: ROOT / name for name in TOP}
    docs = {f"docs/{name}": path for name, path in _pages(ROOT / "docs").items()}
    return {**top, **docs, "examples/README": ROOT / "examples" / "README.md", "card": card}


def sections_js(pages: dict[str, Path]) -> str:
    """What the search reads, as a script, which a browser loads from disk too."""
    sections = read_sections(pages)
    return f"const SECTIONS = {json.dumps(sections, ensure_ascii=False, separators=(',', ':'))};\n"


def _write_notebooks(folder: Path) -> None:
    """The lessons as notebooks, and on each lesson's page a link to its own."""
    sys.path.insert(0, str(ROOT / "docs" / "learn"))
    import render  # type: ignore[import-not-found]

    render.write_notebooks(folder)
    for page in (SOURCE / "docs" / "learn" / "pages").glob("*.md"):
        link = f"{{download}}`This lesson as a notebook <../notebooks/{page.stem}.ipynb>`\n"
        page.write_text(page.read_text(encoding="utf-8") + "\n---\n\n" + link, encoding="utf-8")


def api_page() -> str:
    """The public names, with their docstrings."""
    sys.path.insert(0, str(ROOT))
    import glassformer

    lines = ["# API reference", "", (
        "These names are public: [what is public, and what 0.x promises]"
        "(docs/index.md#what-is-public-and-what-0x-promises)."
    ), ""]  # fmt: skip
    names = [f"glassformer.{name}" for name in glassformer.__all__ if name != "__version__"]
    names += [f"glassformer.explain.{name}" for name in EXPLAIN]
    for name in [*names, *(f"glassformer.explain.attribution.{name}" for name in ATTRIBUTION)]:
        _, _, attribute = name.rpartition(".")
        kind = "class" if attribute[0].isupper() else "function"
        lines += [f"## {attribute}", "", "```{eval-rst}", f".. auto{kind}:: {name}", "```", ""]
    return "\n".join(lines)


def contents() -> str:
    """The README and, group by group, every page; one that no group names stands in the last."""
    every = {page.relative_to(SOURCE).with_suffix("").as_posix() for page in SOURCE.rglob("*.md")}
    commands = sorted(page for page in every if page.startswith("docs/commands/"))
    every -= {"README", "index", *commands}
    overview = SOURCE / "docs" / "commands.md"
    own = [f"{Path(page).name} <{page.removeprefix('docs/')}>" for page in commands]
    overview.write_text(overview.read_text(encoding="utf-8") + "\n" + _toctree(own), encoding="utf-8")
    readme = (SOURCE / "README.md").read_text(encoding="utf-8")
    (SOURCE / "README.md").unlink()
    named: set[str] = set()
    trees = []
    for group, patterns in GROUPS.items():
        pages = [
            page for pattern in patterns for page in sorted(every - named, key=_order) if Path(page).match(pattern)
        ]
        if group == "Reference":
            pages += sorted(every - named - set(pages))
        named |= set(pages)
        trees.append(_toctree(pages, group))
    return readme + "\n" + "\n".join(trees)


def _toctree(pages: Sequence[str], caption: str = "") -> str:
    """Pages for the contents at the side, which are not shown in the text."""
    options = [":hidden:", *([f":caption: {caption}"] if caption else [])]
    return "\n".join(["```{toctree}", *options, "", *pages, "```", ""])


def _order(page: str) -> tuple[int, str]:
    """Lessons in the order of their index, other pages by name."""
    import render

    lessons = list(render.LESSONS)
    return (lessons.index(Path(page).name) if Path(page).name in lessons else len(lessons)), page


def main() -> int:
    prepare()
    for page in SOURCE.rglob("*.md"):  # the README is the first page
        text = page.read_text(encoding="utf-8")
        page.write_text(re.sub(r"\]\(((?:\.\./)*)README\.md", r"](\1index.md", text), encoding="utf-8")
    done = subprocess.call([sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", SOURCE, OUT])
    for name in ("searchindex.js", "_static/searchtools.js", "_static/language_data.js"):
        (OUT / name).unlink(missing_ok=True)  # of Sphinx's own search
    return done or int(bool(print_lost_addresses()))


def print_lost_addresses() -> list[str]:
    """The addresses of the search that the built pages do not have."""
    addresses = [section[0] for section in read_sections(_pages(SOURCE))]
    texts = {
        name: (OUT / f"{name}.html").read_text(encoding="utf-8") for name in {a.partition("#")[0] for a in addresses}
    }
    lost = [
        one for one in addresses if "#" in one and f'id="{one.partition("#")[2]}"' not in texts[one.partition("#")[0]]
    ]
    for one in lost:
        print(f"The search leads to {one}, which the site does not have.", file=sys.stderr)
    return lost


if __name__ == "__main__":
    sys.exit(main())
