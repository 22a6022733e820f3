"""Recipes say what was published, and both commands read them."""

import json
import shutil
from pathlib import Path

import pytest

from benchmarks.reproduce import inputs
from benchmarks.reproduce.__main__ import main
from benchmarks.reproduce.inputs import ReproduceRequest, find_files
from benchmarks.reproduce.recipe import RECIPES, read_recipe, recipe_names
from glassformer.errors import ConfigError, TextError
from glassformer.training.request.arguments import TrainRequest

RESULTS = Path(__file__).parents[3] / "benchmarks" / "results"


def settings_of(name: str, variant: str | None = None) -> dict[str, dict[str, object]]:
    changes = read_recipe(name).variant(variant).changes if variant else []
    request = TrainRequest.make(run=Path("r"), config_file=RECIPES / f"{name}.toml", overrides=changes)
    return request.config.to_mapping()


def test_its_variant_published_is_what_was_published() -> None:
    settings = settings_of("multi30k-en-de", "published")
    expected = {
        "model": {"d_model": 128, "d_ff": 256, "n_heads": 4, "n_encoder_layers": 4, "n_decoder_layers": 4,
                  "dropout": 0.3, "norm": "post", "tie_embeddings": "all", "attention_bias": True,
                  "positions": "sinusoidal", "activation": "relu"},
        "text": {"tokenizer": "bpe", "vocab_size": 10_000 + 256 + 4, "joint": True, "lowercase": False},
        "train": {"batch_tokens": 2048, "accumulate": 2, "max_updates": 8000, "patience": 10, "average_last": 10,
                  "schedule": "inverse_sqrt", "peak_rate": 5e-3, "warmup": 2000, "adam_beta1": 0.9,
                  "adam_beta2": 0.98, "adam_eps": 1e-8, "label_smoothing": 0.1, "validate_every": 0, "metric": "loss",
                  "cooldown": 0},
        "decode": {"beam": 5, "max_length_b": 200},
    }  # fmt: skip
    for section, values in expected.items():
        assert values.items() <= settings[section].items(), section


def test_the_raw_recipe_differs_in_its_text_alone() -> None:
    assert settings_of("multi30k-en-de-raw") == settings_of("multi30k-en-de")
    raw, tokenised = read_recipe("multi30k-en-de-raw"), read_recipe("multi30k-en-de")
    assert raw.teachers == tokenised.teachers
    assert raw.teachers.keys() == {"forward", "backward"}
    assert (raw.form, tokenised.form) == ("raw", "tokenised")
    assert raw.required_files() == [name.replace(".lc.norm.tok", "") for name in tokenised.required_files()]


@pytest.mark.parametrize("name", recipe_names())
def test_a_copy_beside_the_data_is_a_training_that_could_begin(name: str, tmp_path: Path) -> None:
    copy = tmp_path / "mine.toml"
    shutil.copyfile(RECIPES / f"{name}.toml", copy)
    request = TrainRequest.make(run=Path("r"), config_file=copy)
    recipe = read_recipe(str(copy))
    assert recipe.name == "mine"
    places = {side: str(tmp_path / name) for side, name in recipe.data.items()}
    assert request.source.to_mapping() == {"files": places}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("title =", "titel =", r"recipe.titel: there is no such key. Did you mean 'title'\?"),
        ('language = "de"\n', "", r"recipe.language: found nothing"),
        ('language = "de"', "language = 3", r"recipe.language: found 3, expected a string"),
        ('form = "tokenised"', 'form = "spoken"', r"recipe.form: found 'spoken', expected one of tokenised, raw"),
        ('\ntokenised = "test', '\nraw = "test', "not valid TOML|expected a file of references"),
        ('changes = ["', 'changes = [3, "', r"recipe.variants.1..changes: found .*, expected a list of strings"),
        ('forward = ["', 'forward = [3, "', r"recipe.variants.2..forward: found .*, expected a list of strings"),
        ("score = 12.5", 'score = "12.5"', "recipe.tests.1..published.score: found '12.5', expected a number"),
        ("[[recipe.tests]]", "[recipe.tests]", r"recipe.tests: found .*, expected tables"),
        ('valid_src = "val.tok.en.gz"\n', "", "data: found no valid_src"),
        ("title =", 'name = "mine"\ntitle =', "recipe.name: there is no such key: it follows from the file itself"),
    ],
)
def test_an_odd_recipe_is_refused_in_words(phrases: Path, old: str, new: str, message: str, tmp_path: Path) -> None:
    text = (phrases / "phrases.toml").read_text(encoding="utf-8")
    assert old in text
    odd = tmp_path / "odd.toml"
    odd.write_text(text.replace(old, new, 1).replace('raw = "test.de"\n', ""), encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        read_recipe(str(odd))


def test_a_variant_changes_settings_and_what_is_set_by_hand_comes_after(phrases: Path) -> None:
    recipe = read_recipe(str(phrases / "phrases.toml"))
    request = ReproduceRequest(
        recipe, find_files(recipe, phrases), Path("r"), (7,), ("train.max_updates=9",), recipe.variant("shorter")
    )
    config = request.seed_training(7).config
    assert (config.model.norm, config.train.max_updates, config.train.seed) == ("post", 9, 7)
    with pytest.raises(
        ConfigError, match=r"phrases has none named 'short'. Did you mean 'shorter'\? Known: shorter, taught"
    ):
        recipe.variant("short")


@pytest.mark.parametrize("name", recipe_names())
def test_every_variant_is_a_training_that_could_begin(name: str) -> None:
    recipe = read_recipe(name)
    for variant in recipe.variants:
        TrainRequest.make(run=Path("r"), config_file=recipe.path, overrides=variant.changes)
        for teacher in variant.teachers.values():
            TrainRequest.make(run=Path("r"), config_file=recipe.path, overrides=teacher)
    for teacher in recipe.teachers.values():
        TrainRequest.make(run=Path("r"), config_file=recipe.path, overrides=teacher)


def test_the_kept_reports_are_of_the_recipes_of_today() -> None:
    kept = sorted(RESULTS.glob("*/report.json"))
    assert kept
    for place in kept:
        report = json.loads(place.read_text(encoding="utf-8"))
        recipe = read_recipe(report["recipe"]["name"])
        name, _, suffix = place.parent.name.partition(".")
        variant = report["variant"]["name"] if report["variant"] else ""  # without one, the suffix names another run
        assert not variant or suffix == variant
        changes = recipe.variant(variant).changes if variant else []
        assert (recipe.name, report["changed"]) == (name, changes)
        found = TrainRequest.make(run=Path("r"), config_file=recipe.path, overrides=changes).config.to_mapping()
        teachers = (recipe.variant(variant) if variant else recipe).teachers
        trained = (report.get("teachers") or {"trainings": {}})["trainings"]
        assert {direction: row["changed"] for direction, row in trained.items()} == teachers
        for section in ("model", "text", "train", "decode"):
            then, now = report["settings"][section], found[section]
            known = (then.keys() & now.keys()) - {"src_vocab", "tgt_vocab", "seed", "max_minutes"}
            assert {key: then[key] for key in known} == {key: now[key] for key in known}, place


def test_a_seed_that_would_be_passed_over_is_refused(phrases: Path) -> None:
    recipe = read_recipe(str(phrases / "phrases.toml"))
    with pytest.raises(ConfigError, match=r"train.seed: differs for each training here. .* --seeds"):
        ReproduceRequest(recipe, find_files(recipe, phrases), Path("r"), (7,), ("train.seed=77",))


RECIPE = read_recipe("multi30k-en-de")
FILES = [*RECIPE.required_files(), *RECIPE.optional_files()]


def put(home: Path, names: list[str]) -> None:
    home.mkdir(parents=True, exist_ok=True)
    for name in names:
        (home / name).write_text("")


def test_they_are_found_plain_or_packed_and_in_folders(tmp_path: Path) -> None:
    """As the repository of Multi30k has them: raw/ and tok/, some packed and some not."""
    put(tmp_path / "tok", [name.removesuffix(".gz") for name in FILES if "tok" in name])
    put(tmp_path / "raw", [name for name in FILES if "tok" not in name])
    found = find_files(RECIPE, tmp_path)
    assert found.keys() == set(FILES)
    assert found["train.lc.norm.tok.en.gz"] == tmp_path / "tok" / "train.lc.norm.tok.en"
    assert found["test_2016_flickr.de.gz"] == tmp_path / "raw" / "test_2016_flickr.de.gz"


@pytest.mark.parametrize("place", ["project/data/multi30k", "shared/data/multi30k"])
def test_they_are_found_in_the_project_and_beside_it(place, tmp_path, monkeypatch):
    put(tmp_path / place, FILES)
    monkeypatch.setattr(inputs, "ROOT", tmp_path / "project")
    assert find_files(RECIPE)["train.lc.norm.tok.de.gz"] == tmp_path / place / "train.lc.norm.tok.de.gz"


def test_without_them_one_message_says_what_where_how_and_on_what_terms(tmp_path: Path) -> None:
    with pytest.raises(TextError) as nothing:
        find_files(RECIPE, tmp_path)
    message = str(nothing.value)
    assert "\n" not in message
    assert message.startswith(f"multi30k-en-de: found none of its files in {tmp_path}, expected ")
    for said in (*RECIPE.required_files(), "https://github.com/multi30k/dataset", "--data", "non-commercial"):
        assert said in message
    put(tmp_path, RECIPE.required_files()[1:])
    with pytest.raises(TextError, match=f"found no {RECIPE.required_files()[0]} in"):
        find_files(RECIPE, tmp_path)


def test_it_lists_its_recipes_and_says_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    listed = capsys.readouterr()
    assert "multi30k-en-de: Transformer-Tiny" in listed.out
    assert "41.02 tokenised on test_2016_flickr" in listed.out
    assert listed.err == ""
    assert main(["multi30k-en-de", "--data", str(tmp_path)]) == 2
    missing = capsys.readouterr()
    assert missing.out == ""
    assert missing.err.startswith(f"error: multi30k-en-de: found none of its files in {tmp_path}, ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seeds", "1,x"], "--seeds: found '1,x', expected different whole numbers such as 1,2,3."),
        (["--seeds", "1,01"], "--seeds: found '1,01', expected different whole numbers"),
        (["--seeds", "9" * 5000], "--seeds: found "),
        (["--run", ""], "--run: found an empty name, expected a directory"),
        (["--variant", "taugt"], "--variant: phrases has none named 'taugt'. Did you mean 'taught'?"),
    ],
)
def test_odd_values_are_refused_in_one_line(phrases, arguments, message, tmp_path, capsys):
    given = [str(phrases / "phrases.toml"), "--data", str(phrases), "--run", str(tmp_path / "run")]
    assert main([*given, *arguments]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"error: {message}")
    assert said.count("\n") == 1
    assert not list(tmp_path.iterdir())
