"""What the page on serving says is so: its commands answer as it shows, and its refusals are those of the server."""

import json
import re
import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

PAGE = (Path(__file__).parents[2] / "docs" / "serving.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```console\n(.*?)^```", PAGE, re.M | re.S)
COMMANDS = [
    (command, answer.strip())
    for block in BLOCKS
    for command, answer in re.findall(r"^\$ (curl [^\n]*)\n((?:(?!\$ ).*\n)*)", block, re.M)
]
ROWS = re.findall(r"^\| [^|]+ \| (\d{3}) \| `{1,2} ?(.*?) ?`{1,2} \|$", PAGE, re.M)


def curl(client: TestClient, command: str) -> Any:
    """Ask as curl would."""
    words, headers, fields = shlex.split(command)[1:], {}, list[str]()
    url = next(word for word in words if word.startswith("localhost:5000")).removeprefix("localhost:5000")
    for option, value in pairwise(words):
        if option == "-H":
            name, _, text = value.partition(": ")
            headers[name] = text
        elif option == "-d":
            fields.append(value)
    if not fields:
        return client.get(url, headers=headers)
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    return client.post(url, content="&".join(fields), headers=kind | headers)


@pytest.mark.parametrize(("command", "answer"), [one for one in COMMANDS if "explain" not in one[0]])
def test_a_command_of_the_page_answers_as_it_says(client, command, answer):
    found = curl(client, command)
    assert found.status_code == 200, found.text
    if answer:
        assert found.json() == json.loads(answer)


def test_the_page_has_commands_and_refusals():
    assert len(COMMANDS) >= 5
    assert len(ROWS) >= 13


SOURCES = "\n".join(
    path.read_text("utf-8") for path in (Path(__file__).parents[2] / "glassformer" / "serving").rglob("*.py")
)


@pytest.mark.parametrize(("status", "text"), ROWS, ids=[text for _, text in ROWS])
def test_a_refusal_of_the_page_is_one_of_the_server(status, text):
    """Each longest piece of it that does not depend on the request stands in the code."""
    pieces = re.split(r"\b(?:zz|q|English|German|Expected.*|\d+)\b|[(){}:]", text.removeprefix("Invalid request: "))
    longest = max((piece.strip() for piece in pieces), key=len, default="")
    assert longest in SOURCES or "Expected" in text, (status, longest)
