"""docs/translators.md, followed literally in an empty directory; only the training is shorter."""

import os
import re
import subprocess
import sys
from io import BytesIO
from pathlib import Path

import pytest
from babel.messages import Message, pofile

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "translators.md").read_text(encoding="utf-8")
COMMANDS = [line for block in re.findall(r"^```sh\n(.*?)^```", PAGE, re.M | re.S) for line in block.splitlines()]


def follow(line: str, home: Path) -> str:
    """Run one line of the page with this interpreter and this package; its output and its messages."""
    line = line.replace("python examples/", f"{sys.executable} {ROOT}/examples/")
    line = line.replace("glassformer ", f"{sys.executable} -m glassformer ", 1).replace("-minutes 30", "-updates 30")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(line.split(), cwd=home, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def forms_of(message: Message) -> tuple[str, ...]:
    """The translation of a message, of each plural form."""
    return message.string if isinstance(message.string, tuple) else (message.string,)


@pytest.mark.slow
def test_the_page_leads_from_a_memory_to_a_filled_catalog(tmp_path: Path) -> None:
    said = [follow(line, tmp_path) for line in COMMANDS]
    assert [line.split()[1] for line in COMMANDS[1:]] == ["train", "evaluate", "translate"]
    assert re.search(r"Of \d+ held-out sentences, .* \d+ are exactly right", said[1])
    assert "report.html" in said[1]
    assert "of 200 sentences" in said[2]
    assert re.search(r"23 texts filled by \w+, 1 of them from the memory", said[3])
    assert (tmp_path / "runs" / "mine" / "report.html").is_file()
    before, after = (
        pofile.read_po(BytesIO((tmp_path / name).read_bytes()), abort_invalid=True)
        for name in ("app.po", "app.de.po")
    )
    assert [message.id for message in before] == [message.id for message in after]
    messages = [message for message in after if message.id]
    assert len(messages) == 23
    assert [message.fuzzy for message in messages] == [message.id != "Cancel" for message in messages]
    empty = [message for message in messages if not all(forms_of(message))]
    assert said[3].count("the translation is empty") >= len(empty)  # the model has learned little
    plural = next(message for message in messages if isinstance(message.id, tuple))
    assert all("%(count)d" in form for form in plural.string)
