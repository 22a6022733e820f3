"""Which device CTranslate2 computes on.

There is no card here: a stand-in says that there are two, and computes on the CPU what it is asked to compute on one.
So it is shown that the engine is chosen and which device it is given, not that a card gives the same outputs.
"""

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from glassformer import Translator
from glassformer.bundled import BUNDLED
from glassformer.decoding.engines import auto_engine, ctranslate2_run
from glassformer.decoding.engines.auto_engine import PROOFS, find_fast_device
from glassformer.decoding.engines.export_cache import CACHE
from glassformer.errors import ConfigError

ctranslate2 = pytest.importorskip("ctranslate2", reason="CTranslate2 is an extra: pip install '.[fast]'")
TEXT, GERMAN = "I love you, too.", "Ich liebe dich auch."
CPU_TRANSLATOR, CPU_TYPES = ctranslate2.Translator, ctranslate2.get_supported_compute_types


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's cache, in a place of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shutil.copytree(BUNDLED, tmp_path_factory.mktemp("gpu") / "run")


@pytest.fixture
def cards(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, str]]:
    """Two stand-ins for cards; the device, number and compute type of each model that is loaded."""
    loaded: list[tuple[str, int, str]] = []

    def load(directory: str, device: str, *, device_index: int, compute_type: str, **options: Any) -> Any:
        loaded.append((device, device_index, compute_type))
        here = "float32" if compute_type == "float16" else compute_type
        return CPU_TRANSLATOR(directory, "cpu", compute_type=here, **options)

    monkeypatch.setattr(ctranslate2_run, "may_have_gpu", lambda: True)
    monkeypatch.setattr(ctranslate2, "get_cuda_device_count", lambda: 2)
    monkeypatch.setattr(ctranslate2, "get_supported_compute_types", lambda *_: CPU_TYPES("cpu") | {"float16"})
    monkeypatch.setattr(ctranslate2, "Translator", load)
    monkeypatch.setattr(auto_engine, "_SUBJECTS", ("She",))
    return loaded


@pytest.fixture
def broken_cards(cards: list[tuple[str, int, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Cards whose libraries are missing, which CTranslate2 says when it first computes."""

    class Broken:
        def translate_batch(self, *_: Any, **__: Any) -> None:
            raise RuntimeError("Library libcublas.so.12 is not found or cannot be loaded")

        def unload_model(self) -> None:
            pass

    def load(directory: str, device: str, **options: Any) -> Any:
        return Broken() if device == "cuda" else CPU_TRANSLATOR(directory, device, **options)

    monkeypatch.setattr(ctranslate2, "Translator", load)


@pytest.mark.parametrize(("device", "number"), [("auto", 0), ("cuda:1", 1)])
def test_auto_takes_ctranslate2_on_a_card_where_it_gives_what_torch_gives(run, cards, monkeypatch, device, number):
    if device != "auto":  # PyTorch finds no card here
        monkeypatch.setattr("glassformer.run_directory.pick_device", lambda _: "cpu")
    with Translator.load(run, device=device) as translator:
        found = translator.translate([TEXT])[0]
    assert (found.engine, found.hypotheses[0].text) == ("ctranslate2", GERMAN)
    assert set(cards) == {("cuda", number, "float32")}
    assert [proof.name for proof in (run / CACHE).glob("*/proof*")] == [PROOFS["cuda"]], "the CPU has its own"


@pytest.mark.usefixtures("broken_cards")
def test_where_a_card_does_not_work_torch_translates_in_its_place(run, caplog):
    caplog.set_level("INFO")
    with Translator.load(run) as translator:
        assert translator.translate([TEXT])[0].engine == "torch"
    assert "CTranslate2 cannot compute on cuda (Library libcublas.so.12 is not found" in caplog.text


def test_ctranslate2_takes_the_card_that_is_named_or_the_first(run: Path, cards: list[tuple[str, int, str]]) -> None:
    for given in ({}, {"device": "cuda:1", "precision": "float16"}, {"device": "cpu"}):
        with Translator.load(run, engine="ctranslate2", **given) as translator:
            assert translator.translate([TEXT])[0].hypotheses[0].text == GERMAN
    assert cards == [("cuda", 0, "float32"), ("cuda", 1, "float16"), ("cpu", 0, "float32")]
    with pytest.raises(
        ConfigError, match=r"device: found 'cuda:2' with engine ctranslate2, .*cpu, cuda, cuda:0, cuda:1,"
    ):
        Translator.load(run, engine="ctranslate2", device="cuda:2")


@pytest.mark.usefixtures("broken_cards")
def test_ctranslate2_computes_on_the_cpu_where_no_card_works_and_none_is_named(run, caplog):
    with Translator.load(run, engine="ctranslate2") as translator:
        assert translator.translate([TEXT])[0].hypotheses[0].text == GERMAN
    assert "libcublas.so.12 is not found or cannot be loaded). Mend" in caplog.text
    with pytest.raises(ConfigError, match="device: CTranslate2 cannot compute on cuda"):
        Translator.load(run, engine="ctranslate2", device="cuda")


def test_a_machine_with_a_card_and_without_ctranslate2_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctranslate2_run, "may_have_gpu", lambda: True)
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(ConfigError, match=r"engine: found ctranslate2\. CTranslate2 is not installed"):
        Translator.load(engine="ctranslate2")
    assert find_fast_device("auto", None) is None


@pytest.mark.parametrize(
    ("device", "torch_has_gpu", "count", "expected"),
    [
        ("auto", False, 0, "cpu"), ("auto", True, 0, None), ("auto", True, 1, "cuda"), ("auto", False, 1, "cuda"),
        ("cpu", True, 1, "cpu"), ("cuda", True, 1, "cuda"), ("cuda:1", True, 1, None), ("cuda:x", True, 1, None),
        ("cuda", True, 0, None), ("mps", True, 0, None),
    ],
)  # fmt: skip
def test_a_card_that_only_torch_finds_is_torchs(monkeypatch, device, torch_has_gpu, count, expected):
    monkeypatch.setattr(auto_engine, "_torch_has_gpu", lambda: torch_has_gpu)
    monkeypatch.setattr(ctranslate2_run, "count_gpus", lambda: count)
    assert find_fast_device(device, None) == find_fast_device(device, "float32") == expected
    assert find_fast_device(device, "bf16") is None
