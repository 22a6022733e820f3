"""The model that ships with the package: its files are complete and small, it works without ``--run``, its card is true."""

import io
import json
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from random import Random
from types import ModuleType

import pytest
import torch
from rich.cells import cell_len
from rich.console import Console
from safetensors.torch import load_file
from typer.testing import CliRunner, Result

from glassformer import ModelConfig, RunConfig, Transformer, Translator
from glassformer.bundled import BUNDLED, CARD
from glassformer.checkpoint import read_tensors, save_checkpoint, verify_checkpoint, weights_of
from glassformer.cli.demo import SENTENCES, show_bundled
from glassformer.cli.main import app
from glassformer.decoding.translation import REASONS
from glassformer.explain.recording.edits import parse_edits
from glassformer.explain.recording.effect import find_changes
from glassformer.explain.walks import walk, walk_through
from glassformer.files import sha256
from glassformer.run_directory import WEIGHTS, RunDirectory, load_run
from glassformer.text import Tokenizer
from glassformer.text.corpus.corpus import Pair
from glassformer.training.request.arguments import TrainRequest

ROOT = Path(__file__).parents[1]
FIRST = "I love you, too."


def call(*arguments: str | Path, stdin: str = "") -> Result:
    """The result of a command, which must succeed without a message on standard error."""
    result = CliRunner().invoke(app, list(map(str, arguments)), input=stdin, env={"COLUMNS": "200", "TERM": "dumb"})
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    return result


def card() -> str:
    return CARD.read_text(encoding="utf-8")


def recorded_answers() -> dict[str, str]:
    """The model's answer to each sentence, from the tables of the card whose first column is English."""
    found = {}
    for block in card().split("\n\n"):
        if block.startswith("| English |"):
            rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|", block, re.M)[2:]
            found |= {re.sub(r"( \\\*| \(\?\))+$", "", source): answer for source, answer in rows}
    return found


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator.load(device="cpu")


@pytest.fixture
def pack(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "examples" / "bundled"))
    return import_module("pack")


def files(directory: Path) -> set[str]:
    return {path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file()}


def test_the_directory_holds_one_sealed_checkpoint_no_text_and_no_place_of_a_machine():
    (checkpoint,) = (BUNDLED / "final").iterdir()
    verify_checkpoint(checkpoint)
    sealed = {f"final/{checkpoint.name}/{name}" for name in ("manifest.json", "model.safetensors", "state.json")}
    own = {"README.md", "config.json", "tokenizer.src.json", "tokenizer.tgt.json"}
    assert files(BUNDLED) - {"confidence.json"} == own | sealed
    assert sum(path.stat().st_size for path in BUNDLED.rglob("*")) <= 11_000_000
    _, data = RunDirectory(BUNDLED).read_config()
    assert data.keys() == {"description", "fingerprint"}
    for path in BUNDLED.rglob("*.json"):
        if not path.name.startswith("tokenizer"):
            assert re.findall(r'"[~/\\][^"]*"', path.read_text(encoding="utf-8")) == [], path.name


def test_matrices_are_int8_rows_and_it_says_how_sure_it_is(translator: Translator) -> None:
    stored = load_file(load_run(BUNDLED, "cpu").checkpoint / f"{WEIGHTS}.safetensors")
    for name, weight in weights_of(translator.model).items():
        assert weight.dim() < 2 or stored[name].dtype == torch.int8, name
    assert translator.confidence is not None
    assert translator.confidence.fitted_on["sentences"] == 1000
    (known, *strange) = translator.translate([FIRST, "Der alte Mann liest ein Buch.", "El perro duerme.", "asdf jkl"])
    assert known.hypotheses[0].confidence > 0.5
    assert known.doubt is None
    assert all(one.doubt is not None for one in strange)


def test_the_first_sentence_needs_no_run_and_the_card_says_what_the_model_answers(translator):
    answer = translator.translate([FIRST])[0].text
    assert "liebe" in answer
    assert call("translate", FIRST).stdout == f"{answer}\n"
    assert call("translate", stdin=f"{FIRST}\n\n{FIRST}\n").stdout == f"{answer}\n\n{answer}\n"
    recorded = recorded_answers()
    assert len(recorded) >= 20
    answers = translator.translate(list(recorded))
    assert {answer.source: answer.text for answer in answers} == recorded


@pytest.mark.slow
def test_typed_texts_were_judged_twice_and_each_kind_is_warned_of_for_its_reason(pack, translator):
    judge, typed = import_module("judge"), import_module("typed_sentences").TYPED
    before, now = judge.read_verdicts("previous"), judge.read_verdicts("bundled")
    texts = [(kind, source) for kind, sources in typed.items() for source in sources]
    assert [(one.kind, one.source) for one in before] == [(one.kind, one.source) for one in now] == texts
    assert all("" not in one.verdicts for one in before + now)
    assert judge.answer(BUNDLED, now) == now
    texts, measure = import_module("reasons").TEXTS, import_module("measure")
    by_itself = {"number", "missing", "symbols"}  # seen in the texts, not by the estimate
    kinds = [*(one for one in REASONS if one not in by_itself), "none"]
    assert {kind: len(set(some)) for kind, some in texts.items()} == dict.fromkeys(kinds, 20)
    found = measure.reasons(translator)
    assert found == measure.read_results()["bundled"]["reasons"]
    for kind, counts in found.items():
        assert max(counts, key=counts.__getitem__) == kind
    assert found["none"] == {"none": 20}


def test_the_card_shows_every_sentence_and_the_figures_that_were_measured(pack: ModuleType) -> None:
    first, measure = import_module("first_sentences").SENTENCES, import_module("measure")
    assert list(recorded_answers()) == [sentence for group in first.values() for sentence in group]
    assert import_module("card").card(BUNDLED, measure.read_results()) == card()
    found = measure.read_results()["bundled"]
    assert found["weights"] == measure.sealed(BUNDLED)
    assert found["confidence_file"] == sha256(BUNDLED / "confidence.json")
    assert found["first_sentences"] == recorded_answers()


def test_the_card_names_what_the_files_are_and_who_wrote_the_sentences():
    loaded = load_run(BUNDLED, "cpu")
    state = json.loads((loaded.checkpoint / "state.json").read_text(encoding="utf-8"))
    assert f"| parameters | {sum(weight.numel() for weight in weights_of(loaded.model).values()):,} |" in card()
    assert f"| {state['counters']['update']:,} |" in card().partition("## How it was made")[2].partition("\n## ")[0]
    weights_mb = (loaded.checkpoint / "model.safetensors").stat().st_size / 1e6
    assert f"weights take {weights_mb:.2f} MB" in card()
    attribution = " ".join(card().partition("## Data and attribution")[2].partition("\n## ")[0].split())
    for name in ("https://tatoeba.org", "CC BY 2.0 FR", "creativecommons.org/licenses/by/2.0/fr", "CLDR", "Babel"):
        assert name in attribution
    assert "https://tatoeba.org" in card().partition("## Licence")[2]
    scores = card().partition("## Scores")[2].partition("\n## ")[0]
    assert len(re.findall(r"`nrefs:1\|case:mixed\|[^`]+version:[\d.]+`", scores)) == 2


@pytest.mark.slow
def test_every_command_that_takes_a_run_takes_the_bundled_one(tmp_path: Path, translator: Translator) -> None:
    src, tgt = tmp_path / "a.en", tmp_path / "a.de"
    answer = translator.translate([FIRST])[0].text
    src.write_text(f"{FIRST}\n{FIRST}\n", encoding="utf-8")
    tgt.write_text(f"{answer}\nDas Meer schweigt.\n", encoding="utf-8")
    likely, unlikely = (
        float(line.split("\t")[0]) for line in call("score", "--src", src, "--tgt", tgt).stdout.splitlines()
    )
    assert unlikely < likely < 0
    scores = json.loads(call("evaluate", "--src", src, "--ref", tgt, "--json").stdout)
    assert (scores["exact_match"], scores["sentences"]) == (50.0, 2)
    assert f"{FIRST} → {answer}" in call("trace", FIRST).stdout
    assert call("trace", FIRST, "--verify").stdout.endswith("All checks passed.\n")
    assert "They agree." in call("diff", "--text", FIRST, "--b", "cached").stdout
    assert "They agree." in call("diff", "bundled", "bundled", "--text", FIRST).stdout
    for command in (
        ["translate", FIRST],
        ["score", "--src", src, "--tgt", tgt],
        ["evaluate", "--src", src, "--ref", tgt],
    ):
        assert call(*command, "--run", "bundled").stdout == call(*command).stdout


def test_its_name_is_bundled_in_python_too(translator: Translator) -> None:
    with Translator.load("bundled") as named:
        assert named.src_tokenizer.digest == translator.src_tokenizer.digest


@pytest.mark.slow
def test_summary_says_which_model_it_shows(tmp_path: Path) -> None:
    shown = call("summary").stdout
    assert shown.startswith(f"The bundled English-German model; {CARD} tells what it is.\n")
    parameters = sum(weight.numel() for weight in weights_of(load_run(BUNDLED, "cpu").model).values())
    assert f"total parameters: {parameters:,}" in shown
    assert call("summary", "--run", BUNDLED).stdout.startswith(f"The model {BUNDLED / 'final'}")
    assert call("summary", "base").stdout.startswith("The configuration base, without weights.\n")


@pytest.mark.slow
def test_the_demo_shows_the_bundled_model_in_80_columns(translator: Translator) -> None:
    console = Console(file=io.StringIO(), width=80)
    show_bundled(console)
    shown = console.file.getvalue()
    assert all(sentence in shown for sentence in SENTENCES)
    assert max(cell_len(line) for line in shown.splitlines()) <= 80
    assert len(re.findall(r"head \d+\*", shown)) == 2  # marked among the small ones, and named for the large one
    told = shown.partition("3  What happens")[2].partition("\n4  ")[0]
    assert [int(number) for number in re.findall(r"^ ?(\d+)  \S", told, re.M)] == list(range(1, 13))
    edit = re.search(r"--edit '([^']+)'", shown)
    source = re.search(r'glassformer trace "([^"]+)" \\', shown)
    assert edit is not None
    assert source is not None
    plain = walk(translator, [source[1]])
    edited = walk_through(translator, plain.sentences, edits=parse_edits([edit[1]], plain, translator))
    moved = sum(one.before[0] != one.after[0] for one in find_changes(plain, edited, translator.tgt_tokenizer))
    assert f"{moved} of {len(plain.sentences.tgt_out_tokens[0])} next tokens changed" in " ".join(shown.split())


@pytest.mark.slow
def test_the_demo_shows_the_same_dates_after_each_round_and_wraps_nothing(tmp_path, monkeypatch):
    """With two short rounds; its model is poor, which its pictures survive."""
    make, short = TrainRequest.make, ["train.max_updates=240", "train.validate_every=120"]
    monkeypatch.setattr(TrainRequest, "make", lambda **given: make(**{**given, "overrides": short}))
    monkeypatch.chdir(tmp_path)
    stdout = CliRunner().invoke(app, ["demo"], env={"COLUMNS": "80", "TERM": "dumb"}, catch_exceptions=False).stdout
    assert [line for line in stdout.splitlines() if cell_len(line) > 80 and "file://" not in line] == []
    rounds = re.findall(r"^After \d+ updates .*\n((?:  [✓✗] .*\n)+)", stdout, re.M)
    shown = [re.findall(r"[✓✗] (.*?) -> ", one) for one in rounds]
    assert len(shown[0]) == 4
    assert shown == [shown[0]] * 2
    assert (tmp_path / "runs" / "demo.html").is_file()
    assert (tmp_path / "runs" / "demo" / "report.html").is_file()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the wheel and the source distribution of this tree."""
    home = tmp_path_factory.mktemp("built")
    tree = home / "tree"
    tree.mkdir()
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE", "NOTICE"):
        shutil.copy(ROOT / name, tree)
    shutil.copytree(ROOT / "glassformer", tree / "glassformer", ignore=shutil.ignore_patterns("__pycache__"))
    code = "from setuptools import build_meta as b; b.build_sdist('..'); b.build_wheel('..')"
    done = subprocess.run([sys.executable, "-c", code], cwd=tree, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return home


@pytest.mark.slow
def test_the_wheel_holds_the_model_and_the_page_and_describes_itself(built):
    assets = (path for path in (ROOT / "glassformer/explain/page/assets").rglob("*") if path.is_file())
    expected = {f"glassformer/bundled/en-de/{name}" for name in files(BUNDLED)}
    expected |= {path.relative_to(ROOT).as_posix() for path in assets}
    (wheel,), (source,) = built.glob("*.whl"), built.glob("*.tar.gz")
    assert wheel.stat().st_size <= 12_000_000
    with zipfile.ZipFile(wheel) as archive:
        assert {name for name in archive.namelist() if "/en-de/" in name or "/assets/" in name} == expected
    with tarfile.open(source) as archive:
        assert {name.partition("/")[2] for name in archive.getnames() if Path(name).suffix} >= expected
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        described = archive.read(name).decode("utf-8")
    assert "\n# glassformer\n" in described
    assert "<!--" not in described
    assert re.findall(r"\]\((?!https://)", described) == []


def test_links_of_the_readme_lead_to_this_version_in_the_repository() -> None:
    make: Callable[..., str] = runpy.run_path(str(ROOT / "setup.py"))["long_description"]
    readme = (ROOT / "README.md").read_text("utf-8")
    described = make(readme, "https://example.org/glassformer/", "0.1.0")
    relative = re.findall(r"\]\((?!https://)([^)]+)\)", readme)
    relative += re.findall(r'<img alt="[^"]*" src="([^"]+)"', readme)
    assert len(relative) > 20
    for path in relative:
        assert (ROOT / path.partition("#")[0]).exists(), path
        view = "raw" if path.endswith((".png", ".webp")) else "blob"
        assert f"](https://example.org/glassformer/{view}/v0.1.0/{path})" in described
    assert make("![a picture](docs/a.png)\n[the docs](docs/a.md#b), [x](https://x.org)", None, "1") == (
        "\nthe docs, [x](https://x.org)"
    )


@pytest.mark.slow
def test_what_the_wheel_holds_translates_on_a_fresh_machine(built, tmp_path, translator):
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    command = [sys.executable, "-m", "glassformer", "translate", FIRST]
    done = subprocess.run(
        command, cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path / "site"), "HOME": str(tmp_path), "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == (f"{translator.translate([FIRST])[0].text}\n", "")


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    """A run with a final model of random weights."""
    tokenizer = Tokenizer.train("characters", ["the old house"], 40)
    sizes = {"src_vocab": tokenizer.size, "tgt_vocab": tokenizer.size, "d_model": 6, "n_heads": 2, "d_ff": 5}
    config = ModelConfig(**sizes, n_encoder_layers=1, n_decoder_layers=1)
    run = RunDirectory(tmp_path / "run")
    run.create()
    run.write_config(RunConfig(model=config), {"files": ["/home/me/train.tsv"], "fingerprint": "abc"})
    run.write_tokenizers(tokenizer, tokenizer)
    state = {"counters": {"update": 3}, "src_tokenizer": tokenizer.digest, "tgt_tokenizer": tokenizer.digest}
    save_checkpoint(run.final, 3, {WEIGHTS: weights_of(Transformer(config))}, state)
    return run.path


def test_packing_rounds_the_final_model_and_replaces_what_was_there(pack, finished, tmp_path):
    into = tmp_path / "into"
    shutil.copytree(finished, into)
    (into / "final" / "update-00000099").mkdir()
    assert not pack.is_packed(finished, into)
    pack.pack(finished, into)
    assert pack.is_packed(finished, into)
    assert (into / "config.json").read_text(encoding="utf-8").count("/home/me") == 0
    assert [path.name for path in (into / "final").iterdir()] == ["update-00000003"]
    packed, before = (weights_of(load_run(path, "cpu").model) for path in (into, finished))
    for name, weight in packed.items():
        step = before[name].abs().max() / 127 if weight.dim() == 2 else 0.0
        assert float((weight - before[name]).abs().max()) <= 0.51 * step, name
    assert next(into.rglob("*.safetensors")).stat().st_mode & 0o444 == 0o444


def test_packing_replaces_nothing_but_an_older_model(pack: ModuleType, finished: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    for into in (finished, tmp_path):
        before = files(into)
        with pytest.raises(SystemExit, match="is the run itself or not a run directory"):
            pack.pack(finished, into)
        assert files(into) == before


def test_packing_refuses_what_cannot_ship(pack, finished, tmp_path, monkeypatch):
    (checkpoint,) = (finished / "final").iterdir()
    weights = read_tensors(checkpoint, WEIGHTS)
    state = json.loads((checkpoint / "state.json").read_text(encoding="utf-8"))
    name = next(name for name, weight in weights.items() if weight.dim() == 2)
    save_checkpoint(finished / "final", 4, {WEIGHTS: {**weights, name: weights[name] + torch.inf}}, state)
    with pytest.raises(SystemExit, match="has a value that is not finite"):
        pack.pack(finished, tmp_path / "into")
    monkeypatch.setattr(pack, "MAX_BYTES", 1_000)
    with pytest.raises(SystemExit, match="expected at most 1,000"):
        pack.check_size(finished)
    shutil.rmtree(finished / "final")
    with pytest.raises(SystemExit, match="has no final model"):
        pack.pack(finished, tmp_path / "into")


@pytest.mark.parametrize(
    "line", ["tom went home, now!\tx", "Mary went home now.\tx", "x\tGeh, Maria!"], ids=["case", "name", "target"]
)
def test_packing_refuses_to_judge_by_what_was_trained_on(pack: ModuleType, tmp_path: Path, line: str) -> None:
    learned = "Tom went home now.\tGeh, Tom!\nHe saw Tom, Mary and Tom.\tEr sah sie.\nI know Tom and Mary.\tJa."
    for name, text in {"train": learned, "wide": learned, "valid": "a\tb", "test": "x\ty"}.items():
        (tmp_path / f"{name}.tsv").write_text(f"{text}\n", encoding="utf-8")
    assert pack.read_all(tmp_path)["test"] == [("x", "y")]
    (tmp_path / "test.tsv").write_text(f"{line}\n", encoding="utf-8")
    with pytest.raises(SystemExit, match=r"1 test sentences are among the training sentences"):
        pack.read_all(tmp_path)


@pytest.fixture
def augment(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "examples" / "bundled"))
    return import_module("augment")


def test_two_sentences_become_one_pair(augment: ModuleType) -> None:
    tired, here = Pair("I am tired.", "Ich bin müde."), Pair("She's here!", "Sie ist hier!")
    assert augment.join_sentences(tired, here) == ("I am tired. She's here!", "Ich bin müde. Sie ist hier!")
    assert augment.join_sentences(Pair("Hello", "Hallo"), here) is None
    assert augment.join_sentences(tired, Pair("Hello.", "Hallo")) is None
    you = Pair("You lie.", "Du lügst."), Pair("Where's your car?", "Wo ist Ihr Auto?")
    assert augment.join_sentences(*you) is None
    assert augment.join_sentences(you[0], here) == ("You lie. She's here!", "Du lügst. Sie ist hier!")


GO = Pair("Go.", "Geh.")


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (GO, ("She's here.", "Sie ist hier."), ("Go, but she's here.", "Geh, aber sie ist hier.")),
        (
            Pair("Go.", "Gehen Sie."),
            ("You know.", "Sie wissen es."),
            ("Go, but you know.", "Gehen Sie, aber Sie wissen es."),
        ),
        (GO, ("I'll go.", "Ich gehe."), ("Go, but I'll go.", "Geh, aber ich gehe.")),
        (GO, ("Tom's ill.", "Tom ist krank."), ("Go, but Tom's ill.", "Geh, aber Tom ist krank.")),
        (GO, ("Is he here?", "Ist er hier?"), None),
        (GO, ("Dogs bark.", "Hunde bellen."), None),
        (GO, ("He left ...", "Er ging ..."), None),
        (GO, ("They left.", "Er ging."), None),
        (GO, ("..", ".."), None),
        (Pair("Go!", "Geh!"), ("I'll go.", "Ich gehe."), None),
        (Pair("You go.", "Geht ihr."), ("You know.", "Sie wissen es."), None),
    ],
)
def test_two_clauses_become_one_sentence(augment, first, second, expected):
    assert augment.join_clauses(first, Pair(*second), augment.CONJUNCTIONS[1]) == expected


def test_before_und_no_clause_is_left_open(augment: ModuleType) -> None:
    he, both = Pair("He knows.", "Er weiß es."), Pair("I know who he is.", "Ich weiß, wer er ist.")
    und, aber = augment.CONJUNCTIONS
    assert augment.join_clauses(GO, he, und) == ("Go and he knows.", "Geh und er weiß es.")
    assert augment.join_clauses(both, he, und) is None
    assert augment.join_clauses(both, he, aber) == (
        "I know who he is, but he knows.",
        "Ich weiß, wer er ist, aber er weiß es.",
    )


def test_longer_pairs_are_chosen_by_chance_that_can_be_repeated(augment, monkeypatch):
    monkeypatch.setattr(augment, "SENTENCES", 8)
    monkeypatch.setattr(augment, "CLAUSES", 4)
    pairs = [Pair(f"I am {n}.", f"Ich bin {n}.") for n in range(40)]
    found = augment.join_pairs(pairs, Random(1))
    assert found == augment.join_pairs(pairs, Random(1)) != augment.join_pairs(pairs, Random(2))
    for part in (found[:8], found[8:]):
        used = [number for pair in part for number in re.findall(r"\d+", pair.src)]
        assert len(used) == len(set(used)) == 2 * len(part)
    assert [len(found[:8]), len(found[8:])] == [8, 4]
    assert augment.join_pairs([], Random(1)) == []
