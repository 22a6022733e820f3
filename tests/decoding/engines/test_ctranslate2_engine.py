"""The engine ctranslate2: what it writes is what torch writes, it starts without PyTorch, and it refuses by name."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from filter_values import value_with_effect
from typer.testing import CliRunner

from glassformer import DecodeConfig, Translator
from glassformer.bundled import BUNDLED
from glassformer.checkpoint import MANIFEST, save_checkpoint, weights_of
from glassformer.cli.main import app
from glassformer.decoding import Request
from glassformer.decoding.engines.export_cache import CACHE
from glassformer.errors import ConfigError, InputError, RunError, StorageError
from glassformer.files import lock_file, open_to_append, sha256
from glassformer.run_directory import RunDirectory

pytest.importorskip("ctranslate2", reason="CTranslate2 is an extra: pip install '.[fast]'")

ROOT = Path(__file__).parents[3]
DATA = ROOT.parent / "shared" / "data" / "multi30k"
TEXTS = [
    "A man sleeps.", "Two dogs run in the snow.", "", "I love you, too.", "The old house stands by a river.",
    "Where is the station?", "We have no time.", "She gave him a book that he had read before.",
]  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    """The user's cache, in a place of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield Path(os.environ["XDG_CACHE_HOME"]) / "glassformer" / CACHE


@pytest.fixture(scope="module")
def torch_engine() -> Translator:
    return Translator.load(device="cpu", engine="torch")


@pytest.fixture(scope="module")
def fast():
    with Translator.load(engine="ctranslate2", workers=2) as translator:
        yield translator


@pytest.fixture
def run(tmp_path, monkeypatch) -> Path:
    """A run of one's own, with the bundled model, and a cache of one's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shutil.copytree(BUNDLED, tmp_path / "run")
    return tmp_path / "run"


def assert_same(ours, theirs) -> None:
    """Texts, tokens and ids the same; log-probabilities and scores up to the share of <pad> and <s>."""
    for one, other in zip(ours, theirs, strict=True):
        assert (one.source, one.source_tokens, one.source_truncated) == (
            other.source, other.source_tokens, other.source_truncated,
        )  # fmt: skip
        for best, found in zip(one.hypotheses, other.hypotheses, strict=True):
            assert (best.text, best.tokens, best.ids, best.truncated) == (
                found.text, found.tokens, found.ids, found.truncated,
            )  # fmt: skip
            assert found.log_prob == pytest.approx(best.log_prob, abs=5e-3)
            assert found.score == pytest.approx(best.score, abs=5e-3)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"beam": 1},
        {"beam": 5, "n_best": 3, "length_penalty": 0.0},
        {"beam": 3, "n_best": 2, "length_penalty": 1.2},
        {"beam": 4, "length_norm": "power", "length_penalty": 1.0},
        {"beam": 1, "early_stopping": "heuristic"},
        {"beam": 1, "no_repeat_ngram": 1, "min_length": 9},
        {"beam": 3, "max_length_a": 0.5, "max_length_b": 1},  # most reach a limit of their own
        {"beam": 4, "batch_tokens": 30},
        {"split_sentences": True},
    ],
    ids=str,
)
def test_it_writes_what_torch_writes(torch_engine, fast, options):
    asked = DecodeConfig(**options)
    assert_same(torch_engine.translate(TEXTS, asked), fast.translate(TEXTS, asked))


def test_prefixes_banned_phrases_and_streams_act(torch_engine, fast):
    requests = [
        Request("A man sleeps.", prefix="Der"),
        Request("I love you, too.", ban=("liebe",)),
        Request("Two dogs."),
    ]
    greedy = DecodeConfig(beam=1)
    ours, theirs = (list(engine.translate_stream(requests, greedy)) for engine in (torch_engine, fast))
    assert_same(ours, theirs)
    assert theirs[0].text.startswith("Der")
    assert "liebe" not in theirs[1].text.split()
    for options in (DecodeConfig(beam=1), DecodeConfig(beam=4)):
        pieces = list(fast.stream(TEXTS[4], options))
        assert "".join(pieces) == torch_engine.translate([TEXTS[4]], options)[0].text
        assert (len(pieces) > 3) == (options.beam == 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{"no_repeat_ngram": 1000}, {"min_length": 8}, {"beam": 3, "min_length": 8}], ids=str
)
def test_an_output_as_long_as_the_model_takes(torch_engine, fast, options):
    """After a filter only greedy outputs are the same: a beam sees what the filter leaves renormalised."""
    asked, long = DecodeConfig(**{"beam": 1, **options}), "tree " * 600
    ours, theirs = (engine.translate([long, "A man."], asked) for engine in (torch_engine, fast))
    longest = torch_engine.model.config.max_length
    assert len(ours[0].hypotheses[0].ids) == len(theirs[0].hypotheses[0].ids) == longest
    assert "".join(fast.stream(long, asked)) == theirs[0].text
    if asked.beam == 1:
        for one, other in zip(ours, theirs, strict=True):
            assert other.hypotheses[0].ids == one.hypotheses[0].ids
            assert other.hypotheses[0].log_prob == pytest.approx(one.hypotheses[0].log_prob, rel=1e-3)


def test_attention_is_the_last_layers_mean(torch_engine, fast):
    options = DecodeConfig(beam=4)
    ours, theirs = (engine.translate(TEXTS, options, attention=True) for engine in (torch_engine, fast))
    for one, other in zip(ours, theirs, strict=True):
        if one.source:
            expected, found = one.hypotheses[0].alignment(), other.hypotheses[0].alignment()
            assert found.shape == expected.shape
            assert (found - expected).abs().max() < 1e-4
            assert other.links() == one.links()
            for part in ({"layer": 1}, {"head": 0}):
                with pytest.raises(InputError, match="layer, head: found with engine ctranslate2"):
                    other.hypotheses[0].alignment(**part)


@pytest.mark.parametrize("beam", [1, 4])
def test_what_a_search_tells_of_attention_is_never_more_than_there_is(fast, beam):
    """Of one source it is all; of several that a beam searches together all but what the first token gives."""
    texts, options = [text for text in TEXTS if text.strip()], DecodeConfig(beam=beam)
    together = fast.translate(texts, options, attention=True)
    alone = [fast.translate([text], options, attention=True)[0] for text in texts]
    for number, one in enumerate([*together, *alone]):
        best = one.hypotheses[0]
        first = 1 if beam > 1 and number < len(texts) > 1 else 0
        expected = best.alignment()[first:].sum(0)
        assert best.received == pytest.approx(expected.tolist(), abs=1e-4)


def test_targets_are_scored(torch_engine, fast):
    sources, targets = ["A man sleeps.", "Two dogs."], ["Ein Mann schläft im Garten.", "Hunde."]
    for one, other in zip(
        torch_engine.score_tokens(sources, targets), fast.score_tokens(sources, targets), strict=True
    ):
        assert other.token_log_probs == pytest.approx(one.token_log_probs, abs=1e-3)


def test_samples_follow_from_the_seed(fast):
    one, again, other = (
        fast.translate(TEXTS, DecodeConfig(sample=True, n_best=2, seed=seed, top_k=20, temperature=1.2))
        for seed in (1, 1, 2)
    )
    assert [each.hypotheses for each in one] == [each.hypotheses for each in again]
    assert [each.text for each in one] != [each.text for each in other]
    assert all(len(each.hypotheses) == 2 for each in one if each.source)
    greedy = fast.translate(TEXTS, DecodeConfig(beam=1))
    only = fast.translate(TEXTS, DecodeConfig(beam=1, sample=True, top_p=0.0))
    assert [each.text for each in only] == [each.text for each in greedy]
    assert fast.translate(TEXTS[:1], DecodeConfig(sample=True, top_k=10**6))[0].text


@pytest.mark.parametrize(
    "options",
    [
        {"early_stopping": "never"},
        {"early_stopping": "heuristic"},
        *(
            {"sample": field.metadata["acts_in"] == "sampling", field.name: value_with_effect(field.name)}
            for field in fields(DecodeConfig)
            if "ctranslate2" in field.metadata["missing_in"] and field.name != "early_stopping"
        ),
    ],
    ids=str,
)
def test_what_it_does_not_have_is_refused_by_name(fast, options):
    *_, name = options
    with pytest.raises(ConfigError, match=rf"decode\.{name}: found .* with engine ctranslate2, which "):
        fast.translate(TEXTS, DecodeConfig(**options))


def test_required_phrases_ensembles_devices_and_engines_are_refused(fast):
    with pytest.raises(InputError, match="must: found phrases that must occur with engine ctranslate2"):
        fast.translate(["A man."], constraints=[["Mann"]])
    with pytest.raises(ConfigError, match="engine: found ctranslate2 with 2 runs, expected one"):
        Translator.load([BUNDLED, BUNDLED], engine="ctranslate2")
    with pytest.raises(
        ConfigError, match="device: found 'cuda' with engine ctranslate2, expected one of auto, cpu, which"
    ):
        Translator.load(engine="ctranslate2", device="cuda")
    with pytest.raises(ConfigError, match="engine: found 'onnx', expected one of auto, torch, ctranslate2"):
        Translator.load(engine="onnx")
    with pytest.raises(ConfigError, match="precision: found 'int3', expected one of float32"):
        Translator.load(engine="ctranslate2", precision="int3")
    with pytest.raises(ConfigError, match="engine: found ctranslate2, which shows no model"):
        _ = fast.model
    refused = CliRunner().invoke(app, ["translate", "A man.", "--engine", "ctranslate2", "--align", "--layer", "0"])
    assert "--layer, --head: found with ctranslate2" in str(refused.exception)
    for workers in (0, 1.5, "2", True):
        with pytest.raises(ConfigError, match=f"workers: found {workers!r}, expected"):
            Translator.load(engine="ctranslate2", workers=workers)
    for place, message in ((5, "found int, expected the path"), ([], "found none, expected at least one")):
        with pytest.raises(RunError, match=f"run: {message}"):
            Translator.load(place, engine="ctranslate2")


def test_int8_means_this_engine_or_one_sentence(torch_engine, tmp_path, monkeypatch):
    with Translator.load(precision="int8") as translator:
        found = translator.translate(["I love you, too."])[0]
        with pytest.raises(
            ConfigError, match=r"decode\.min_p: found 0\.1 with engine ctranslate2 for precision int8, "
        ):
            translator.translate(["A man."], DecodeConfig(sample=True, min_p=0.1))
        with pytest.raises(
            InputError, match=r"with engine ctranslate2 for precision int8, .* Use engine torch in float"
        ):
            translator.translate(["A man."], constraints=[["Mann"]])
    assert (found.engine, found.hypotheses[0].text) == ("ctranslate2", "Ich liebe dich auch.")
    refused = "engine: found ctranslate2 for precision int8 with 2 runs, expected one: it has no ensembles"
    with pytest.raises(ConfigError, match=refused):
        Translator.load([BUNDLED, BUNDLED], precision="int8")
    with pytest.raises(ConfigError, match=r"precision: found int8 with engine torch, .* expected float32 or bf16"):
        Translator.load(engine="torch", precision="int8")
    model, *tokenizers = torch_engine.model, torch_engine.src_tokenizer, torch_engine.tgt_tokenizer
    with pytest.raises(
        ConfigError, match="precision: found 'int8', expected one of float32, bf16, which PyTorch has"
    ):
        Translator(model, *tokenizers, DecodeConfig(), precision="int8")
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(
        ConfigError, match=r"engine: found ctranslate2 for precision int8\. CTranslate2 is not installed"
    ):
        Translator.load(precision="int8")


@pytest.mark.slow
def test_it_is_exported_once_and_again_when_the_weights_change(run):
    def files() -> dict[str, int]:
        return {path.parent.name: path.stat().st_mtime_ns for path in (run / CACHE).glob("*/model.bin")}

    def text() -> str:
        with Translator.load(run, engine="ctranslate2", workers=1) as translator:
            return translator.translate(["I love you, too."])[0].text

    first = text()
    written = files()
    assert len(written) == 1
    assert text() == first
    assert files() == written
    with Translator.load(run, engine="ctranslate2", precision="int8") as translator:
        assert translator.translate(["A man."])[0].text
    assert len(files()) == 2
    loaded = RunDirectory(run).load("cpu")
    loaded.model.tgt_embedding.tokens.weight.data.mul_(-1.0)
    state = json.loads((loaded.checkpoint / "state.json").read_text())
    save_checkpoint(run / "final", 20_000, {"model": weights_of(loaded.model)}, state)
    assert text() != first
    assert len(files()) == 2  # the old one of this precision is gone
    assert not {*files()} >= {*written}


@pytest.mark.slow
def test_an_export_whose_sums_are_right_and_which_does_not_load_is_written_again(run, caplog):
    def translate() -> str:
        with Translator.load(run, engine="ctranslate2", workers=1) as translator:
            return translator.translate(["I love you, too."])[0].text

    expected = translate()
    model = next((run / CACHE).glob("*/model.bin"))
    model.write_bytes(b"ruined it")
    manifest = json.loads((model.parent / MANIFEST).read_text())
    manifest["files"][model.name] = sha256(model)
    (model.parent / MANIFEST).write_text(json.dumps(manifest))
    assert translate() == expected
    assert "cannot be loaded" in caplog.text
    assert model.stat().st_size > 1000


def test_a_lock_that_another_process_holds_is_said_and_waited_for_so_long_only(run, monkeypatch, caplog):
    monkeypatch.setattr("glassformer.decoding.engines.export_cache._MAX_WAIT", 0.2)
    (run / CACHE).mkdir()
    with open_to_append(run / CACHE / ".lock") as held:
        lock_file(held)
        with pytest.raises(
            RunError, match=r"\.lock: another process has held this lock for 0 seconds, expected the end"
        ):
            Translator.load(run, engine="ctranslate2", workers=1)
    assert caplog.text.count("another process exports the model; waiting for it.") == 1


@pytest.mark.slow
def test_a_run_that_cannot_be_written_uses_the_users_cache(run, tmp_path):
    (run / CACHE).write_text("in the way")  # root may write everywhere
    for _ in range(2):
        with Translator.load(run, engine="ctranslate2", workers=1) as translator:
            assert translator.translate(["A man."])[0].text
        assert len([*(tmp_path / "cache" / "glassformer" / CACHE).glob("float32-*/model.bin")]) == 1
    assert (run / CACHE).read_text() == "in the way"


@pytest.mark.slow
def test_what_a_killed_export_left_is_cleared_and_samples_outlive_the_directory(run):
    left = run / CACHE / ".0123456789abcdef.writing"
    left.mkdir(parents=True)
    with Translator.load(run, engine="ctranslate2", workers=1) as translator:
        assert not left.exists()
        sampled = DecodeConfig(sample=True, seed=3)
        first = translator.translate(TEXTS[:2], sampled)
        shutil.rmtree(run / CACHE)  # as another process does once the run has other weights
        assert translator.translate(TEXTS[:2], sampled) == first


@pytest.mark.slow
def test_processes_that_need_an_export_at_once_share_one(run):
    script = "import sys; from glassformer import Translator\n"
    script += "with Translator.load(sys.argv[1], engine='ctranslate2', workers=1) as one: one.translate(['A man.'])"
    started = [subprocess.Popen([sys.executable, "-c", script, run], cwd=ROOT) for _ in range(4)]
    assert [process.wait() for process in started] == [0] * 4
    assert len([*(run / CACHE).glob("*/model.bin")]) == 1
    assert not (run.parent / "cache").exists()


def test_a_user_without_a_home_needs_none_where_the_run_can_be_written(run, monkeypatch):
    def no_home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", no_home)
    with Translator.load(run, engine="ctranslate2", workers=1) as translator:
        assert translator.translate(["A man."])[0].text
    with pytest.raises(StorageError, match=r"no home directory\. Set XDG_CACHE_HOME"):
        Translator.load(engine="ctranslate2")


def test_a_cache_that_cannot_be_written_says_what_to_set(monkeypatch, tmp_path):
    (tmp_path / "cache").write_text("a file, in which nobody makes a directory", encoding="utf-8")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(
        StorageError, match=r"cannot be kept there .*Set XDG_CACHE_HOME to a directory that can be wr"
    ):
        Translator.load(engine="ctranslate2")
