"""The faults and mutants of the benchmarks are changes of the source as it is."""

import importlib
import json
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = '''"""Doc, 1 + 1."""
NAMES: dict[str, int | None] = {"a": 1}


class Room:
    @property
    def sizes(self, few: int = 2) -> bool:
        """Doc."""
        if not self.known and few < 3:
            raise ValueError(f"{few + 1}: expected 3")
        self.known.update(NAMES)
        return max(self.known) is None or -few == 0.5
'''
CHANGES = """
m.py: 1 is 2 in 1
m.py Room.sizes: and is or in not self.known and few < 3
m.py Room.sizes: without not in not self.known
m.py Room.sizes: < is <= in few < 3
m.py Room.sizes: 3 is 4 in 3
m.py Room.sizes: left out in self.known.update(NAMES)
m.py Room.sizes: or is and in max(self.known) is None or -few == 0.5
m.py Room.sizes: is is is not in max(self.known) is None
m.py Room.sizes: max is min in max(self.known)
m.py Room.sizes: == is != in -few == 0.5
m.py Room.sizes: without - in -few
m.py Room.sizes: 0.5 is 1.0 in 0.5
m.py Room.sizes: 2 is 3 in 2
"""


@pytest.fixture
def benchmark(monkeypatch):
    """A script of ``benchmarks``, which import one another by their bare names."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")

    def load(name: str) -> ModuleType:
        return importlib.import_module(name)

    return load


def test_each_fault_changes_one_place_of_the_source_as_it_is(benchmark):
    for fault in benchmark("faults").FAULTS:
        text = (ROOT / "glassformer" / fault.file).read_text(encoding="utf-8")
        assert text.count(fault.old) == 1, fault.name
        compile(text.replace(fault.old, fault.new), fault.file, "exec")


def test_each_mutant_that_no_test_finds_has_its_reason_and_no_other(benchmark):
    results = json.loads((ROOT / "benchmarks" / "results" / "mutants.json").read_text(encoding="utf-8"))
    survivors = {name for name, one in results["mutants"].items() if not one["found_by"]}
    assert set(benchmark("mutants").REASONS) == survivors


def test_a_mutant_changes_one_thing_that_is_computed(benchmark, tmp_path):
    (tmp_path / "m.py").write_text(SOURCE, encoding="utf-8")
    found = benchmark("mutations").find_mutants(tmp_path, "m.py")
    assert sorted(one.name for one in found) == sorted(CHANGES.split("\n")[1:-1])
    for one in found:
        assert one.source(tmp_path).decode() != SOURCE
        compile(one.source(tmp_path), one.name, "exec")
    assert next(one for one in found if "<=" in one.name).source(tmp_path).decode() == SOURCE.replace(
        "few < 3:", "(few <= 3):"
    )
