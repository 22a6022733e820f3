"""Engine auto: CTranslate2 where it was shown to give what PyTorch gives, and never another result."""

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass, fields
from pathlib import Path

import pytest
import torch

from glassformer import DecodeConfig, Translator
from glassformer.bundled import BUNDLED
from glassformer.decoding.engines import auto_engine
from glassformer.decoding.engines.agreement import compare_outputs
from glassformer.decoding.engines.auto_engine import PROOFS
from glassformer.decoding.engines.ctranslate2_engine import lacking_options
from glassformer.decoding.engines.export_cache import CACHE
from glassformer.decoding.search import filters
from glassformer.decoding.search.outputs import Output
from glassformer.files import lock_file, open_to_append
from glassformer.settings.section import knob

pytest.importorskip("ctranslate2", reason="CTranslate2 is an extra: pip install '.[fast]'")

TEXTS = [
    "I love you, too.",
    "",
    "The children are playing in the garden.",
    "She gave him a book that he had read before.",
]
OPTIONS = {
    "beam": {"beam": 4}, "n_best": {"beam": 4, "n_best": 2}, "greedy": {"beam": 1}, "power": {"length_norm": "power"},
    "sample": {"sample": True, "seed": 3}, "min_length": {"min_length": 12}, "no_repeat": {"no_repeat_ngram": 1},
    "never": {"early_stopping": "never"}, "penalty": {"repetition_penalty": 1.5}, "uncached": {"cache": False},
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def _cache(tmp_path_factory):
    """The user's cache, in a place of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A run with the bundled model, which has been exported and compared."""
    place = tmp_path_factory.mktemp("auto") / "run"
    shutil.copytree(BUNDLED, place)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(auto_engine, "_SUBJECTS", ("She",))
        with Translator.load(place) as translator:
            assert translator.translate(TEXTS)[0].engine == "ctranslate2"
    return place


@pytest.fixture(scope="module")
def expected(run) -> Translator:
    return Translator.load(run, engine="torch")


@pytest.fixture(scope="module")
def auto(run):
    with Translator.load(run) as translator:
        yield translator


@pytest.fixture
def copy(run, tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr(auto_engine, "_SUBJECTS", ("She",))
    shutil.copytree(run, tmp_path / "run")
    return tmp_path / "run"


def proof_of(run: Path) -> Path:
    (proof,) = (run / CACHE).glob(f"*/{PROOFS['cpu']}")
    return proof


def outcome(translation) -> list[tuple]:
    return [(one.text, one.ids, one.truncated, round(one.confidence or 0, 2)) for one in translation.hypotheses]


OWN = ("no_repeat", "never", "penalty", "uncached")  # which PyTorch runs, as "sample" and "min_length"


@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=pytest.mark.slow) if one in OWN else one for one in OPTIONS]
)
def test_outputs_scores_and_confidence_are_those_of_torch_whatever_the_options(auto, expected, name):
    options = DecodeConfig().with_changes(OPTIONS[name])
    found, right = auto.translate(TEXTS, options), expected.translate(TEXTS, options)
    engine = "ctranslate2" if name in {"beam", "greedy", "power"} else "torch"
    assert {one.engine for one in found if one.source} == {engine}
    assert engine in auto.used_engines
    assert list(map(outcome, found)) == list(map(outcome, right))
    for ours, theirs in zip(found, right, strict=True):
        assert ours.hypotheses[0].log_prob == pytest.approx(theirs.hypotheses[0].log_prob, abs=1e-2)


def test_required_and_banned_phrases_and_alignment_are_those_of_torch(auto, expected):
    for given in ({"constraints": [["Haus"]]}, {"banned": ["liebe"]}, {"prefixes": ["Ich mag"]}):
        assert auto.translate(TEXTS[:1], **given)[0].text == expected.translate(TEXTS[:1], **given)[0].text
    ours, theirs = (each.translate(TEXTS, attention=True) for each in (auto, expected))
    assert [one.links() for one in ours] == [one.links() for one in theirs]
    assert not ours[0].hypotheses[0].mean_attention
    torch.testing.assert_close(ours[0].hypotheses[0].attention, theirs[0].hypotheses[0].attention)
    assert "".join(auto.stream(TEXTS[0])) == expected.translate(TEXTS[:1])[0].text
    assert auto.score(TEXTS[:1], ["Ich liebe dich."]) == expected.score(TEXTS[:1], ["Ich liebe dich."])


@dataclass(frozen=True, kw_only=True)
class NewConfig(DecodeConfig):
    """The options with a new one, which does not say which engines have it."""

    ban_first: bool = knob(False, "the id that would be best is forbidden", acts_in="search")


def forbid_best(log_probs, prefixes, _value, _config):
    return log_probs.scatter(1, log_probs.argmax(1, keepdim=True), -torch.inf)


def test_a_new_processor_is_left_to_torch_until_its_setting_names_other_engines(auto, expected, monkeypatch):
    monkeypatch.setattr(filters, "PROCESSORS", (*filters.PROCESSORS, filters.Filter("ban_first", forbid_best)))
    options = NewConfig(beam=1, ban_first=True)
    found, right = auto.translate(TEXTS[:1], options)[0], expected.translate(TEXTS[:1], options)[0]
    assert (found.engine, found.text) == ("torch", right.text)
    assert found.text != auto.translate(TEXTS[:1], NewConfig(beam=1))[0].text
    assert list(lacking_options(options)) == [("ban_first", False, "does not have it")]
    assert not list(lacking_options(NewConfig(beam=1)))


def test_each_option_of_an_engine_says_whether_ctranslate2_has_it():
    for field in fields(DecodeConfig):
        places = [field.metadata[name] for name in ("equal_in", "differs_in", "missing_in")]
        expected = 0 if field.metadata["acts_in"] == "batching" else 1
        assert sum("ctranslate2" in place for place in places) == expected, field.name


def test_a_model_that_was_asked_for_is_what_translates_from_then_on(run):
    with Translator.load(run) as auto:
        before = auto.translate(TEXTS[:1])[0]
        with torch.no_grad():
            for layer in auto.model.decoder.layers:  # so that nothing of the source is read
                layer.cross_attention.w_o.weight.zero_()
        after = auto.translate(TEXTS[:1])[0]
    assert (before.engine, after.engine) == ("ctranslate2", "torch")
    assert before.text != after.text


SLOW = [pytest.param(each, marks=pytest.mark.slow) for each in ("training", "precision", "damaged", "deleted")]


@pytest.mark.parametrize("fault", ["other", "locked", "missing", *SLOW])
def test_where_it_cannot_be_used_torch_translates_in_its_place(copy, expected, monkeypatch, fault):
    engine, given, held = "torch", {}, None
    export = proof_of(copy).parent
    if fault == "other":
        proof_of(copy).write_text(proof_of(copy).read_text().replace("true", "false"))
    elif fault == "locked":
        shutil.rmtree(export)
        held = open_to_append(copy / CACHE / ".lock")
        lock_file(held)
    elif fault == "training":
        (copy / "final").rename(copy / "best")
        shutil.rmtree(copy / CACHE)
    elif fault == "missing":
        monkeypatch.setattr(auto_engine, "find_spec", lambda _: None)
    elif fault == "precision":
        given = {"precision": "bf16"}
    else:  # is made anew
        engine = "ctranslate2"
        if fault == "damaged":
            (export / "model.bin").write_bytes(b"foreign")
        else:
            shutil.rmtree(copy / CACHE)
    with Translator.load(copy, **given) as translator:
        found = translator.translate(TEXTS)
    if held is not None:
        held.close()
    assert found[0].engine == engine
    assert [one.text for one in found] == [one.text for one in expected.translate(TEXTS)]


def test_the_proof_says_what_was_compared_and_of_which_versions(run):
    proof = json.loads(proof_of(run).read_text())
    assert (proof["equal"], proof["same"], proof["outputs"]) == (True, 20, 20)
    assert proof["versions"].keys() == {"glassformer", "ctranslate2", "torch"}


def test_a_second_start_loads_no_pytorch_and_says_which_engine(run):
    program = (
        "import sys; from glassformer.cli.main import main\n"
        f"sys.argv = ['glassformer', 'translate', '-v', '--json', '--run', {str(run)!r}, {TEXTS[0]!r}]\n"
        "try: main()\nfinally: assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["engine"] == "ctranslate2"
    assert done.stderr.startswith("engine: ctranslate2, which translates as torch does:")


def test_where_engines_differ_or_cannot_be_compared_torch_translates(copy, expected, monkeypatch):
    proof_of(copy).unlink()
    with monkeypatch.context() as patch, Translator.load(copy) as translator:
        patch.setattr(auto_engine, "_TOLERANCE", -1.0)  # what differs at all
        assert translator.translate(TEXTS)[0].engine == "torch"
    assert json.loads(proof_of(copy).read_text())["equal"] is False
    # A stranger's validation text, and text without a sentence.
    (copy / "text").mkdir()
    for lines in ("{}\n", "[]\n", '["", ""]\n', "x\n"):
        (copy / "text" / "valid.jsonl").write_text(lines)
        for proof in (copy / CACHE).glob(f"*/{PROOFS['cpu']}"):
            proof.unlink()
        with Translator.load(copy) as translator:
            found = translator.translate(TEXTS[:1])[0]
        assert (found.engine, found.text) == ("torch", expected.translate(TEXTS[:1])[0].text)


def output(*ids: int, log_prob: float = -1.0, score: float = -0.5) -> Output:
    return Output(list(ids), log_prob, score, truncated=False)


def test_the_first_difference_and_ties_are_found_by_ids_or_by_their_tokens():
    first = [[output(5, 6, 2), output(5, 2)], [output(7, 2)]]
    second = [[output(5, 6, 2, log_prob=-1.25), output(5, 6, 2)], [output(8, 2, score=-0.6)]]
    pairs = [pair for of_source in compare_outputs(first, second) for pair in of_source]
    assert [pair.step for pair in pairs] == [None, 1, 0]
    assert [pair.gap for pair in pairs] == [0.25, 0.0, 0.0]
    assert [pair.is_tie(0.05) for pair in pairs] == [True, True, False]
    to_tokens = (lambda ids: list(map(chr, ids)), lambda ids: [chr(number - 1) for number in ids])
    ((pair,),) = compare_outputs([[output(65, 66)]], [[output(66, 68)]], to_tokens)
    assert (pair.step, pair.tokens) == (1, (["A", "B"], ["A", "C"]))
