"""The site: its search answers questions as people ask them, its pages and pictures are where it says."""

import importlib
import json
import re
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

from glassformer import __version__

ROOT = Path(__file__).parents[1]
SITE = ROOT / "docs" / "site"
LESSON_PICTURE = ROOT / "docs" / "learn" / "pages" / "attention_files" / "attention_33_0.png"  # of one kind only
QUESTIONS: dict[str, str] = json.loads((SITE / "questions.json").read_text("utf-8"))


@pytest.fixture
def builder(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "site"))
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    return importlib.import_module("build")


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node, in which the search of the site is tried")
def test_the_first_hit_of_each_question_is_the_section_that_answers_it(builder: ModuleType, tmp_path: Path):
    sections = tmp_path / "sections.js"
    sections.write_text(builder.sections_js(builder.committed_pages()), encoding="utf-8")
    done = subprocess.run(
        ["node", SITE / "search.js", sections], capture_output=True, text=True, check=False, encoding="utf-8"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("rank 1 of") == len(QUESTIONS)


def test_what_can_be_cited_names_this_version():
    cited = re.findall(r"note += \{Version ([\d.]+)\}", (ROOT / "docs" / "howto.md").read_text("utf-8"))
    cited += re.findall(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text("utf-8"), re.M)
    assert cited == [__version__, __version__]


def test_addresses_stand_in_pages_once_one_place_names_them(builder: ModuleType):
    readme = (ROOT / "README.md").read_text("utf-8")
    urls = {"Repository": "https://github.com/Someone/glassformer"}
    filled = builder.fill_addresses(readme, urls)
    assert "[Try it without installing](https://someone.github.io/glassformer/try.html)" in filled
    assert "`git clone https://github.com/Someone/glassformer`" in filled
    assert builder.fill_addresses(filled, {}) == builder.fill_addresses(readme, {})
    cited = builder.fill_addresses((ROOT / "CITATION.cff").read_text("utf-8"), urls)
    assert 'repository-code: "https://github.com/Someone/glassformer"' in cited
    howto = (ROOT / "docs" / "howto.md").read_text("utf-8")
    assert builder.fill_addresses(howto, urls).count("  url    = {https://github.com/Someone/glassformer},") == 1
    assert builder.fill_addresses(builder.fill_addresses(howto, urls), {}) == builder.fill_addresses(howto, {})


def test_the_first_link_of_the_readme_and_of_the_site_tries_it(builder: ModuleType):
    readme = (ROOT / "README.md").read_text("utf-8")
    assert re.findall(r"\[([^\]]+)\]\(", readme)[0] == "Try it without installing"
    on_the_site = builder.fill_addresses(readme, try_page=builder.TRY)
    assert '<a href="try.html">Try it without installing</a>' in on_the_site


def test_pictures_are_shown_in_their_theme_and_width(builder: ModuleType):
    page = ROOT / "docs" / "page"
    assert builder.with_variants("A head", "docs/page/head.png", page / "head.png") == (
        "![A head](docs/page/head.png){.themed .only-light .wide-only}"
        "![A head](docs/page/head-dark.png){.themed .only-dark .wide-only}"
        "![A head](docs/page/head-phone.png){.themed .only-light .narrow-only}"
        "![A head](docs/page/head-phone-dark.png){.themed .only-dark .narrow-only}"
    )
    assert builder.with_variants("Map", "map.png", LESSON_PICTURE) == "![Map](map.png)"
    chart = builder.with_variants("BLEU", "charts/quality.svg", ROOT / "docs" / "charts" / "quality.svg")
    assert chart.startswith("![BLEU](charts/quality.svg){.themed .only-light .wide-only}")
    assert chart.count("![BLEU](charts/quality") == 4
