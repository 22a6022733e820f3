from functools import partial
from pathlib import Path

import pytest

from glassformer.errors import ConfigError
from glassformer.run_directory import RunDirectory
from glassformer.settings import NAMED_MODELS, ModelConfig, RunConfig
from glassformer.training.request.arguments import TrainRequest
from glassformer.training.request.data import FileSource, TaskSource
from glassformer.training.request.defaults import FEW_PAIRS, describe_settings

RUN = Path("runs/x")


def test_later_layers_override_earlier_ones(tmp_path: Path) -> None:
    toml = tmp_path / "run.toml"
    toml.write_text('[model]\nd_ff = 77\ndropout = 0.2\n[train]\nwarmup = 33\nseed = 5\n[data]\ntask = "dates"\n')
    request = TrainRequest.make(run=RUN, config_file=toml, overrides=["train.seed=7"])
    assert isinstance(request.source, TaskSource)
    model, settings = request.config.model, request.config.train
    assert (model.d_model, model.d_ff, model.dropout) == (96, 77, 0.2)
    assert (settings.warmup, settings.seed, settings.metric) == (33, 7, "exact_match")


def test_a_named_model_overrides_only_its_sizes_in_the_settings_of_a_task() -> None:
    request = TrainRequest.make(run=RUN, data={"task": "dates"}, model="small")
    assert request.config.model.d_model == 256
    assert request.config.text.tokenizer == "characters"
    assert request.config.train.metric == "exact_match"


@pytest.mark.parametrize(
    ("overrides", "tied"),
    [([], "all"), (["text.joint=false"], "target"), (["text.joint=false", "model.tie_embeddings=none"], "none")],
)
def test_two_vocabularies_tie_what_they_can(overrides: list[str], tied: str) -> None:
    request = TrainRequest.make(run=RUN, data={"src": "a", "tgt": "b"}, overrides=overrides)
    assert request.config.model.tie_embeddings == tied
    said = "a vocabulary for each side, so that model.tie_embeddings is"
    assert (said in describe_settings(request.config, 9)) == bool(overrides)
    with pytest.raises(ConfigError, match="'all' shares one matrix"):
        TrainRequest.make(run=RUN, data={"task": "dates"}, overrides=["text.joint=false", "model.tie_embeddings=all"])


def write_pairs(path: Path, count: int) -> Path:
    path.write_text("".join(f"Number {number} sleeps well.\tNummer {number} {number}\n" for number in range(count)))
    return path


@pytest.mark.parametrize(("count", "name"), [(1, "micro"), (FEW_PAIRS, "micro"), (FEW_PAIRS + 1, "tiny")])
def test_the_model_follows_from_the_number_of_pairs(count: int, name: str, tmp_path: Path) -> None:
    pairs = write_pairs(tmp_path / "pairs.tsv", count)
    request = TrainRequest.make(run=tmp_path / "run", data={"pairs": str(pairs)}, overrides=["model.dropout=0.25"])
    assert request.config.model == ModelConfig.from_name(name, dropout=0.25)


@pytest.mark.parametrize("name", ["micro", "tiny"])
@pytest.mark.parametrize("changes", [{}, {"n_encoder_layers": 3}, {"dropout": 0.1}])
def test_a_run_keeps_the_model_that_it_began_with(name: str, changes: dict[str, int], tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run")
    run.create()
    run.write_config(RunConfig(model=ModelConfig.from_name(name, src_vocab=97, tgt_vocab=97, **changes)), {})
    (run.latest / "update-1").mkdir(parents=True)
    for count in (FEW_PAIRS, FEW_PAIRS + 1):
        pairs = write_pairs(tmp_path / "pairs.tsv", count)
        assert TrainRequest.make(run=run.path, data={"pairs": str(pairs)}).config.model == ModelConfig.from_name(name)


@pytest.mark.parametrize("damage", ["", "[]", '{"config": []}', '{"config": {"model": 3}}', "\0"])
def test_a_damaged_run_does_not_keep_the_model_from_being_chosen(damage: str, tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run")
    run.create()
    run.config_file.write_text(damage)
    request = TrainRequest.make(run=run.path, data={"pairs": str(write_pairs(tmp_path / "pairs.tsv", 5))})
    assert request.config.model == ModelConfig.micro()


@pytest.mark.parametrize("name", NAMED_MODELS)
@pytest.mark.parametrize("named_in_file", [True, False])
def test_a_named_model_has_the_sizes_of_that_model(name: str, named_in_file: bool, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text('[model]\nname = "tiny"\n' if named_in_file else "")
    request = TrainRequest.make(run=RUN, data={"src": "a", "tgt": "b"}, config_file=tmp_path / "run.toml", model=name)
    assert request.config.model == ModelConfig.from_name(name)


def test_a_named_model_overrides_every_size_of_a_task() -> None:
    model = TrainRequest.make(run=RUN, data={"task": "dates"}, model="base").config.model
    base = ModelConfig.base()
    assert (model.d_model, model.n_heads, model.d_ff, model.n_decoder_layers, model.norm, model.d_k) == (
        base.d_model, base.n_heads, base.d_ff, base.n_decoder_layers, base.norm, base.d_k
    )  # fmt: skip


def test_paths_in_a_file_are_relative_to_its_directory(tmp_path: Path) -> None:
    toml = tmp_path / "run.toml"
    toml.write_text('run = "here"\n[data]\nsrc = "a"\ntgt = "b"\nvalid_src = "c"\nvalid_tgt = "d"\n')
    request = TrainRequest.make(config_file=toml)
    assert request.run == tmp_path / "here"
    assert request.source == FileSource(tmp_path / "a", tmp_path / "b", tmp_path / "c", tmp_path / "d")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"task": "dates", "valid": "v.tsv"}, "--valid: does not go with --task, expected only --task"),
        (
            {"pairs": "p.tsv", "tgt": "b"},
            "--tgt: does not go with a file of pairs, expected only a file of pairs, --valid",
        ),
        (
            {"src": "a", "tgt": "b", "valid": "v.tsv"},
            "--valid: does not go with --src, expected only --src, --tgt, --valid-src, --valid-tgt",
        ),
        ({"src": "a", "tgt": "b", "pairs": "p.tsv"}, "found src and pairs"),
        ({"src": "a", "tgt": "b", "valid_src": "c"}, "--valid-src: found alone"),
        ({"sorce": "a"}, r"data.sorce: there is no such setting. Did you mean 'src'\?|data.sorce: there is no such"),
    ],
)
def test_text_that_would_be_ignored_is_refused(data: dict[str, str | None], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        TrainRequest.make(run=RUN, data=data)


@pytest.mark.parametrize("text", ["data = 3\n", "model = 3\n", "[modle]\nd_ff = 3\n", '[model]\nname = "tinny"\n'])
def test_an_invalid_file_is_refused_with_a_message(text: str, tmp_path: Path) -> None:
    toml = tmp_path / "run.toml"
    toml.write_text(text)
    with pytest.raises(ConfigError):
        TrainRequest.make(run=RUN, data={"task": "dates"}, config_file=toml)


def test_a_model_may_be_named_by_set() -> None:
    named = TrainRequest.make(run=RUN, data={"task": "dates"}, overrides=["model.name=base", "model.d_ff=99"])
    model = TrainRequest.make(run=RUN, data={"task": "dates"}, model="base", overrides=["model.d_ff=99"])
    assert named == model
    assert named.config.model.d_ff == 99


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ["train.stop_at=90", "train.metric=loss"],
            r"train.stop_at: found 90.0 with metric 'loss', which is no percentage, expected one of bleu, chrf, exact_match",
        ),
        (["train.adam_beta2=1.0"], r"train.adam_beta2: found 1.0, expected a value from 0.0 to 0.99999"),
        (['model.name=["tiny"]'], r"there is no configuration named \['tiny'\]"),
    ],
)
def test_an_invalid_setting_or_one_without_effect_is_refused(overrides: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        TrainRequest.make(run=RUN, data={"src": "a", "tgt": "b"}, overrides=overrides)


def test_a_task_that_is_not_a_string_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text("[data]\ntask = 3\n")
    with pytest.raises(ConfigError, match=r"data.task: found 3, expected one name"):
        TrainRequest.make(run=RUN, config_file=tmp_path / "run.toml")


@pytest.mark.parametrize(
    ("given", "files"),
    [
        ({"valid": "c.tsv"}, ("a.tsv", None, "c.tsv", None)),
        ({"pairs": "c.tsv"}, ("c.tsv", None, None, None)),
        ({"src": "c", "tgt": "d"}, ("c", "d", None, None)),
        ({"mix": "c.tsv"}, ("a.tsv", None, "b.tsv", None)),
    ],
)
def test_data_on_the_command_line_replaces_what_it_names(given, files, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    toml = Path("run.toml")
    toml.write_text('[data]\npairs = "a.tsv"\nvalid = "b.tsv"\nmix = "m.tsv"\n[train]\nmix = 0.25\n')
    request = TrainRequest.make(run=RUN, data=given, config_file=toml)
    assert request.source == FileSource(*(None if name is None else Path(name) for name in files))
    assert request.mix == FileSource(Path(given.get("mix", "m.tsv")))


@pytest.mark.parametrize("key", ["pairs", "mix"])
def test_a_list_of_names_in_the_data_is_refused(key: str, tmp_path: Path) -> None:
    toml = tmp_path / "run.toml"
    other = "" if key == "pairs" else 'pairs = "a.tsv"'
    toml.write_text(f'[data]\n{other}\n{key} = ["a.tsv", "b.tsv"]\n')
    with pytest.raises(ConfigError, match=rf"data\.{key}: found \['a\.tsv', 'b\.tsv'\], expected one name"):
        TrainRequest.make(run=RUN, config_file=toml)


def test_languages_come_from_the_command_the_file_the_names_of_the_text_or_the_first_model(tmp_path: Path) -> None:
    toml, named, nameless = tmp_path / "run.toml", {"src": "a.fr", "tgt": "a.en.gz"}, {"src": "a", "tgt": "b.en"}
    toml.write_text('[text]\nlanguages = "it-en"\n')

    def languages(data: dict[str, str], *overrides: str, file: Path | None = None, init: str | None = None) -> str:
        request = TrainRequest.make(run=RUN, data=data, config_file=file, init=init, overrides=overrides)
        return request.config.text.languages

    assert languages(nameless) == ""
    assert languages(named) == "fr-en"
    assert languages(named, file=toml) == "it-en"
    assert languages(named, "text.languages=pt_BR-en", file=toml) == "pt_BR-en"
    assert languages(nameless, init="bundled") == "en-de"
    assert languages(named, init="bundled") == "fr-en"


def test_a_preset_comes_before_a_file_and_what_is_set(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text('preset = "paper"\n[train]\nwarmup = 300\n', encoding="utf-8")
    make = partial(TrainRequest.make, run=tmp_path / "run", data={"task": "dates"})
    paper = make(preset="paper").config.train
    assert (paper.schedule, paper.peak_rate, paper.warmup, paper.cooldown, paper.clip_norm) == ("noam", 0, 4000, 0, 0)
    assert paper.metric == "exact_match", "the task's own settings stay"
    assert make(config_file=tmp_path / "run.toml").config.train.warmup == 300
    assert make(preset="paper", overrides=["train.cooldown=0.5"]).config.train.cooldown == 0.5
    with pytest.raises(ConfigError, match="there is no preset 'papers'"):
        make(preset="papers")
