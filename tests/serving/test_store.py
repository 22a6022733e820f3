"""What is kept for a while: for whom, how long, and how many."""

import pytest

from glassformer.serving import store as module
from glassformer.serving.store import Store, new_id


def test_a_thing_is_found_by_its_owner_until_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    gone = list[str]()
    store = Store[str](10, 60.0, gone.append)
    store.keep("1", "a", "mine")
    assert (store.find("1", "mine"), store.find("1", "yours"), store.find("2", "mine")) == ("a", None, None)
    now[0] = 61.0
    assert (store.find("1", "mine"), gone) == (None, ["a"])


def test_the_oldest_is_forgotten_when_there_are_too_many_and_what_is_taken_is_not() -> None:
    gone = list[str]()
    store = Store[str](2, forget=gone.append)
    for number, thing in enumerate("abc"):
        store.keep(str(number), thing)
    assert (gone, store.of("")) == (["a"], ["b", "c"])
    assert (store.take("1"), store.of(""), gone) == ("b", ["c"], ["a"])


def test_ids_cannot_be_guessed() -> None:
    assert len({new_id() for _ in range(100)}) == 100
    assert len(new_id()) == 32  # 128 bits in hexadecimal
