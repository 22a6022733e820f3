"""The demo waits for a reader on a terminal and nowhere else, and ends with the page in a browser where there is one."""

import io
import os
import sys
import webbrowser
from collections.abc import Iterator
from typing import TextIO

import pytest
from rich.console import Console

from glassformer.cli import demo


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[TextIO]:
    """What is typed at a terminal, which is standard input; standard output is one too."""
    typed, read = os.openpty()
    with open(typed, "w", encoding="utf-8") as keyboard, open(read, encoding="utf-8") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
        monkeypatch.delenv("CI", raising=False)
        yield keyboard


def shown_by_pause(*, is_terminal: bool) -> str:
    console = Console(file=io.StringIO(), force_terminal=is_terminal)
    demo._pause(console)
    return console.file.getvalue()


def test_on_a_terminal_enter_continues(terminal: TextIO) -> None:
    terminal.write("\n")
    terminal.flush()
    assert "[Enter] continues" in shown_by_pause(is_terminal=True)


def test_without_a_reader_a_terminal_continues_by_itself(terminal: TextIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "LONGEST_PAUSE", 0.01)
    assert "[Enter] continues" in shown_by_pause(is_terminal=True)


@pytest.mark.parametrize("place", ["a pipe", "an automatic build"])
def test_nothing_waits_elsewhere(place: str, terminal: TextIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo.select, "select", lambda *_: pytest.fail("it waits"))
    if place == "an automatic build":
        monkeypatch.setenv("CI", "true")
    assert shown_by_pause(is_terminal=place != "a pipe") == ""


@pytest.mark.parametrize(("display", "told"), [(":0", "It is open in your browser"), ("", "Open it in a browser")])
def test_the_page_is_opened_where_there_is_a_screen(display, told, terminal, monkeypatch, tmp_path):
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda address: bool(opened.append(address) or True))
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("DISPLAY", display)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    console = Console(file=io.StringIO(), width=200)
    demo._open_page(console, tmp_path / "demo.html")
    address, shown = (tmp_path / "demo.html").as_uri(), console.file.getvalue()
    assert told in shown
    assert f"translate    {address}#translate\n  look inside  {address}\n" in shown
    assert opened == ([f"{address}#translate"] if display else [])
