"""Recipes say what was published, and both commands read them."""

import json
import shutil
from pathlib import Path

import pytest

from benchmarks.reproduce.inputs import ReproduceRequest, find_files
from benchmarks.reproduce.recipe import RECIPES, read_recipe, recipe_names
from glassformer.errors import ConfigError
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
