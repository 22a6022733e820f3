"""Keys and limits: who is let in, what is told to who is not, and in which order."""

import time
from pathlib import Path
from typing import Any

import pytest

from glassformer.errors import ConfigError
from glassformer.serving.access import Access
from glassformer.serving.config import ServeConfig
from glassformer.serving.http_errors import HTTPError


@pytest.fixture
def keys(tmp_path: Path) -> str:
    path = tmp_path / "keys.txt"
    path.write_text("# who may ask\nsecret\nslow 2\n", encoding="utf-8")
    return str(path)


def refused(access: Access, key: str = "", address: str = "a", texts: int = 1) -> tuple[int, str]:
    with pytest.raises(HTTPError) as found:
        access.admit(key, address, texts)
    return found.value.status, found.value.message


def access_of(**changes: Any) -> Access:
    return Access(ServeConfig(**changes))


def test_without_a_file_of_keys_any_key_is_taken():
    assert access_of().admit("anything", "1.2.3.4") == "address 1.2.3.4"


def test_a_wrong_key_is_refused_and_none_is_taken_unless_one_is_required(keys):
    access = access_of(keys=keys)
    assert refused(access, "wrong") == (403, "Invalid API key")
    assert access.admit("", "a") == "address a"
    assert access.admit("secret", "a").startswith("key ")
    assert "secret" not in repr(vars(access))
    strict = access_of(keys=keys, require_key=True)
    assert refused(strict) == (400, "Please contact the server operator to get an API key")


def test_a_key_that_nobody_can_have_is_not_required():
    with pytest.raises(ConfigError, match="--require-key: found without --keys"):
        access_of(require_key=True)


def test_a_client_has_so_many_texts_a_minute_and_is_told_when_to_ask_again(keys, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    access = access_of(keys=keys, request_limit=3)
    access.admit("", "a", 2)
    with pytest.raises(HTTPError) as found:
        access.admit("", "a", 2)
    assert (found.value.message, found.value.headers) == (
        "Slowdown: 3 texts a minute are allowed",
        {"Retry-After": "60"},
    )
    access.admit("", "a", 1)
    access.admit("", "b", 3)
    access.admit("slow", "a", 2)
    assert refused(access, "slow") == (429, "Slowdown: 2 texts a minute are allowed")
    now[0] += 61
    access.admit("", "a", 3)


@pytest.mark.parametrize(
    ("line", "message"), [("a b c", "found 3 words"), ("key many", "found 2 words"), ("", "has no key")]
)
def test_a_file_of_keys_that_cannot_be_read_is_named(tmp_path, line, message):
    path = tmp_path / "keys.txt"
    path.write_text(f"{line}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        access_of(keys=str(path))
