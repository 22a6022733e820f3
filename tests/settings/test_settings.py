"""Every knob is documented and guarded; every wrong setting is answered with a sentence that helps."""

import ast
import json
import math
import re
from dataclasses import FrozenInstanceError, fields
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import glassformer
from glassformer.errors import ConfigError, GlassformerError
from glassformer.serving.config import ServeConfig
from glassformer.settings import (
    IMPLY_SAMPLING,
    NAMED_MODELS,
    DecodeConfig,
    ModelConfig,
    RunConfig,
    TextConfig,
    TrainConfig,
    name_languages,
    named_model,
)
from glassformer.settings.section import Section, apply_overrides, read_toml
from glassformer.text.corpus.noise import KINDS

PACKAGE = Path(glassformer.__file__).parent

SECTIONS = [ModelConfig, TextConfig, TrainConfig, DecodeConfig]
KNOBS = [(section, knob) for section in SECTIONS for knob in fields(section)]
KNOB_NAMES = [f"{section.__name__}.{knob.name}" for section, knob in KNOBS]


@pytest.mark.parametrize(("section", "knob"), KNOBS, ids=KNOB_NAMES)
def test_every_knob_says_what_it_means(section, knob):
    assert len(knob.metadata["doc"]) > 10


@pytest.mark.parametrize(("section", "knob"), KNOBS, ids=KNOB_NAMES)
def test_every_numeric_knob_has_a_lower_limit_and_none_lies_below_it(section, knob):
    if knob.type not in (int, float):
        return
    low = knob.metadata["low"]
    assert low is not None
    with pytest.raises(ConfigError, match=rf"{knob.name}: found .*, expected a value"):
        section(**{knob.name: knob.type(low - 1)})


@pytest.mark.parametrize(("section", "knob"), KNOBS, ids=KNOB_NAMES)
@pytest.mark.parametrize("wrong", [None, [1], {"a": 1}, b"bytes"])
def test_a_value_of_the_wrong_type_is_named_with_its_knob(section, knob, wrong):
    with pytest.raises(
        ConfigError, match=rf"^{section.__name__.removesuffix('Config').lower()}\.{knob.name}: found "
    ):
        section(**{knob.name: wrong})


@pytest.mark.parametrize(
    ("section", "values", "words"),
    [
        (ModelConfig, {"d_model": "512"}, "model.d_model: found '512' (str), expected int."),
        (ModelConfig, {"d_model": 512.0}, "model.d_model: found 512.0 (float), expected int."),
        (ModelConfig, {"n_heads": True}, "model.n_heads: found True (bool), expected int."),
        (ModelConfig, {"dropout": True}, "model.dropout: found True (bool), expected float."),
        (ModelConfig, {"attention_bias": 1}, "model.attention_bias: found 1 (int), expected bool."),
        (ModelConfig, {"norm": "Post"}, "model.norm: found 'Post', expected one of 'post', 'pre'."),
        (ModelConfig, {"dropout": 1.0}, "model.dropout: found 1.0, expected a value from 0.0 to 0.99."),
        (ModelConfig, {"d_model": 0}, "model.d_model: found 0, expected a value from 1 to 65536."),
        (ModelConfig, {"dropout": math.nan}, "model.dropout: found nan, expected a finite number."),
        (TrainConfig, {"clip_norm": math.inf}, "train.clip_norm: found inf, expected a finite number."),
        (TrainConfig, {"peak_rate": math.nan}, "train.peak_rate: found nan, expected a finite number."),
        (TrainConfig, {"bucket": 10**400}, "train.bucket: found a whole number beyond 2^63, expected a smaller one."),
        (TrainConfig, {"peak_rate": 10**400}, "train.peak_rate: found a whole number beyond 2^63"),
        (TrainConfig, {"threads": "all"}, "train.threads: found 'all' (str), expected 'auto' or int."),
        (TrainConfig, {"threads": True}, "train.threads: found True (bool), expected 'auto' or int."),
        (TrainConfig, {"threads": 0}, "train.threads: found 0, expected a value from 1 to 1024."),
        (TrainConfig, {"peak_rate": 0.1}, "train.peak_rate: found 0.1 with schedule 'noam', expected none"),
        (
            TrainConfig,
            {"schedule": "inverse_sqrt"},
            "found none with schedule 'inverse_sqrt', expected a peak above 0",
        ),
        (TrainConfig, {"adam_eps": 0.0}, "train.adam_eps: found 0.0, expected a value from 1e-12 to 1.0."),
        (ModelConfig, {"norm_eps": 0.0}, "model.norm_eps: found 0.0, expected a value from 1e-12 to 1.0."),
        (DecodeConfig, {"beam": 0}, "decode.beam: found 0, expected a value from 1 to 1000."),
        (DecodeConfig, {"beam": 3, "n_best": 4}, "decode.n_best: found 4, expected at most beam = 3."),
        (
            DecodeConfig,
            {"src_language": "english"},
            "decode.src_language: found 'english', expected a code such as de",
        ),
        (TrainConfig, {"stop_at": 101.0}, "train.stop_at: found 101.0, expected a value from 0.0 to 100.0."),
    ],
)
def test_a_wrong_value_is_answered_with_what_was_found_and_what_was_expected(section, values, words):
    with pytest.raises(ConfigError) as raised:
        section(**values)
    assert words in str(raised.value)


@pytest.mark.parametrize("section", [ModelConfig, TextConfig, TrainConfig, DecodeConfig, ServeConfig])
def test_every_setting_is_read_outside_the_settings(section):
    """One that nothing reads would promise what it does not do."""
    read = {f"noise_{kind}" for kind in KINDS}
    for path in PACKAGE.rglob("*.py"):
        if path.parent.name != "settings" and path.name != "config.py":
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                read |= {node.attr} if isinstance(node, ast.Attribute) else set()
                read |= {node.value} if isinstance(node, ast.Constant) and isinstance(node.value, str) else set()
    assert {knob_field.name for knob_field in fields(section)} <= read


def test_an_int_is_taken_for_a_float_and_becomes_one():
    dropout = ModelConfig(dropout=0).dropout
    assert (dropout, type(dropout)) == (0.0, float)


def test_sampling_may_return_more_outputs_than_the_beam():
    assert DecodeConfig(beam=1, n_best=7, sample=True).n_best == 7


class TestKnobsThatMustAgree:
    def test_d_k_of_ones_own_frees_d_model_from_the_heads_and_d_v_follows_d_k(self):
        config = ModelConfig(d_model=26, n_heads=3, d_k=10)
        assert (config.d_k, config.d_v, config.heads_d_k, config.heads_d_v) == (10, 10, 30, 30)
        config = ModelConfig(d_model=26, n_heads=3, d_k=10, d_v=7)
        assert (config.heads_d_k, config.heads_d_v) == (30, 21)

    def test_rotary_needs_pairs_in_a_head_and_sinusoids_need_pairs_in_the_model(self):
        with pytest.raises(ConfigError, match="d_k: found 5, expected an even number"):
            ModelConfig(positions="rotary", d_k=5)
        with pytest.raises(ConfigError, match="d_model: found 13, expected an even number"):
            ModelConfig(d_model=13, n_heads=1)
        ModelConfig(positions="learned", d_model=13, n_heads=1)

    @pytest.mark.parametrize("ids", [{"pad_id": 1}, {"eos_id": 37_000}, {"bos_id": 40_000}])
    def test_control_ids_differ_and_lie_inside_both_vocabularies(self, ids):
        with pytest.raises(ConfigError, match="expected three different ids below 37000"):
            ModelConfig(**ids)


@pytest.mark.parametrize("section", SECTIONS)
def test_a_configuration_cannot_be_changed_once_made(section):
    config = section()
    with pytest.raises(FrozenInstanceError):
        setattr(config, fields(section)[0].name, 1)


class TestUnknownKeys:
    @pytest.mark.parametrize(
        ("values", "words"),
        [
            ({"model": {"n_head": 3}}, ["model.n_head: there is no such setting", "Did you mean 'n_heads'?"]),
            ({"train": {"learning_rate": 1.0}}, ["train.learning_rate", "Known: seed, "]),
            ({"modle": {}}, ["modle: there is no such section", "Did you mean 'model'?", "Known: model, text"]),
            ({"model": 3}, ["model: found int, expected a section"]),
            ({"model": {"name": 3}}, ["model.name: "]),
            ({"model": {"name": "tny"}}, ["no configuration named 'tny'", "Did you mean 'tiny'?"]),
        ],
    )
    def test_are_refused_with_the_nearest_known_one(self, values, words):
        with pytest.raises(ConfigError) as raised:
            RunConfig.from_mapping(values)
        for word in words:
            assert word in str(raised.value)

    def test_a_word_near_to_nothing_gets_no_suggestion(self):
        with pytest.raises(ConfigError) as raised:
            ModelConfig.from_mapping({"zzzz": 1})
        assert "Did you mean" not in str(raised.value)

    def test_a_named_configuration_takes_no_unknown_change(self):
        with pytest.raises(ConfigError, match="Did you mean 'd_model'"):
            ModelConfig.tiny(dmodel=64)


@pytest.mark.parametrize("name", NAMED_MODELS)
def test_a_named_configuration_is_the_same_by_method_by_name_and_from_a_file(name):
    by_method = getattr(ModelConfig, name)(dropout=0.25)
    assert by_method == ModelConfig.from_name(name, dropout=0.25)
    in_a_file = {"model": {"name": name, "dropout": 0.25}, "text": {"max_tokens": 100}}
    assert by_method == RunConfig.from_mapping(in_a_file).model


def test_a_file_value_wins_over_its_named_configuration_and_the_file_is_left_as_it_was():
    values = {"model": {"name": "tiny", "d_ff": 301}}
    config = RunConfig.from_mapping(values).model
    assert (config.d_ff, config.d_model) == (301, 128)
    assert values == {"model": {"name": "tiny", "d_ff": 301}}


def test_the_defaults_are_the_papers_base_model_and_its_search():
    model, decode = ModelConfig(), DecodeConfig()
    assert (model.d_model, model.d_ff, model.n_heads, model.d_k, model.d_v) == (512, 2048, 8, 64, 64)
    choices = (model.norm, model.positions, model.activation, model.tie_embeddings)
    assert choices == ("post", "sinusoidal", "relu", "all")
    assert (model.dropout, model.attention_bias, model.scale_embedding) == (0.1, False, True)
    assert (decode.beam, decode.length_penalty, decode.max_length_a, decode.max_length_b) == (4, 0.6, 1.0, 50)


class TestSectionsThatMustAgree:
    def test_one_matrix_for_both_sides_needs_one_tokenizer(self):
        with pytest.raises(ConfigError, match=r"text\.joint is false.*'target' or 'none'"):
            RunConfig.from_mapping({"text": {"joint": False}})
        RunConfig.from_mapping({"text": {"joint": False}, "model": {"tie_embeddings": "target"}})

    def test_kept_sentences_fit_the_model_with_the_token_that_starts_or_ends_them(self):
        for asked, kept in ((29, 29), (30, 30), (31, 30), (256, 30)):
            config = RunConfig.from_mapping({"text": {"max_tokens": asked}, "model": {"max_length": 31}})
            assert config.text.max_tokens == kept


class TestOverrides:
    def apply(self, *overrides: str) -> dict:
        values: dict = {"train": {"seed": 3}}
        apply_overrides(values, overrides)
        return values

    @pytest.mark.parametrize(
        ("text", "value"),
        [
            ("7", 7), ("1_000", 1000), ("0.5", 0.5), ("5e-3", 0.005), ("true", True), ('"pre"', "pre"), ("pre", "pre"),
            ("cuda:1", "cuda:1"), (" pre ", "pre"), ("a=b", "a=b"), ("", ""),
        ],
    )  # fmt: skip
    def test_a_value_is_toml_or_else_a_word(self, text, value):
        found = self.apply(f"model.key={text}")["model"]["key"]
        assert (found, type(found)) == (value, type(value))

    def test_they_win_over_the_file_and_the_last_wins_over_the_first(self):
        assert self.apply("train.seed=4", "train.warmup=5", "train.seed=6") == {"train": {"seed": 6, "warmup": 5}}

    @pytest.mark.parametrize("text", ["seed=3", "train.seed", "train.=3", ".seed=3", "=3", "", "train=3"])
    def test_one_that_is_not_section_key_value_is_shown_an_example(self, text):
        with pytest.raises(ConfigError, match=r"expected section\.key=value, for example train\.warmup=2000"):
            self.apply(text)

    def test_a_key_too_deep_ends_as_an_unknown_setting(self):
        with pytest.raises(ConfigError, match=r"train\.seed\.deep: there is no such setting"):
            RunConfig.from_mapping(self.apply("train.seed.deep=3"))

    def test_a_file_that_has_a_value_where_a_section_belongs_is_refused_in_words(self):
        with pytest.raises(ConfigError):
            apply_overrides({"train": 3}, ["train.seed=4"])


class TestTomlFiles:
    def test_nested_values_are_read(self, tmp_path):
        path = tmp_path / "run.toml"
        path.write_text('[model]\nname = "tiny"\n[train]\nclip_norm = 1\n', encoding="utf-8")
        config = RunConfig.from_mapping(read_toml(path))
        assert (config.model.d_model, config.train.clip_norm) == (128, 1.0)

    def test_a_missing_file_a_directory_and_a_syntax_error_name_the_path_and_the_place(self, tmp_path):
        with pytest.raises(ConfigError, match=r"none\.toml: cannot be read: No such file"):
            read_toml(tmp_path / "none.toml")
        with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
            read_toml(tmp_path)
        path = tmp_path / "wrong.toml"
        path.write_text("[model]\nd_model 3\n", encoding="utf-8")
        with pytest.raises(ConfigError, match=r"wrong\.toml: is not valid TOML: .*line 2"):
            read_toml(path)

    def test_a_file_that_is_not_utf8_is_refused_in_words(self, tmp_path):
        path = tmp_path / "latin.toml"
        path.write_bytes(b'name = "\xe9"\n')
        with pytest.raises(ConfigError, match=r"latin\.toml: is not valid TOML"):
            read_toml(path)


class TestRoundTrip:
    def test_the_effective_values_build_an_equal_configuration_even_through_json(self):
        config = RunConfig(
            model=ModelConfig.walkthrough(d_v=17), text=TextConfig(joint=False, max_tokens=101), train=TrainConfig(max_minutes=3),
            decode=DecodeConfig(sample=True, n_best=5),
        )  # fmt: skip
        assert RunConfig.from_mapping(config.to_mapping()) == config
        assert RunConfig.from_mapping(json.loads(json.dumps(config.to_mapping()))) == config

    @pytest.mark.parametrize("section", SECTIONS)
    def test_the_defaults_of_each_section_survive(self, section):
        assert section.from_mapping(section().to_mapping()) == section()

    @given(st.integers(1, 7), st.integers(1, 11), st.floats(0, 0.99), st.sampled_from(["post", "pre"]))
    @settings(max_examples=25, deadline=None)
    def test_any_valid_model_survives(self, n_heads, width, dropout, norm):
        config = ModelConfig(d_model=2 * width * n_heads, n_heads=n_heads, dropout=dropout, norm=norm)
        assert ModelConfig.from_mapping(json.loads(json.dumps(config.to_mapping()))) == config


def test_a_named_configuration_cannot_be_changed_by_whoever_asks_for_it():
    assert named_model("tiny") is not NAMED_MODELS["tiny"]


def test_a_configuration_error_is_a_glassformer_error_with_its_exit_code():
    assert issubclass(ConfigError, GlassformerError)
    assert ConfigError.exit_code == 2
    assert all(issubclass(section, Section) for section in SECTIONS)


def test_numbers_and_nests_that_python_refuses_are_answered_in_words(tmp_path):
    values: dict[str, object] = {}
    apply_overrides(values, [f"train.bucket={'9' * 5000}"])
    with pytest.raises(ConfigError, match=r"train\.bucket: found '999"):
        TrainConfig.from_mapping(values["train"])
    (tmp_path / "deep.toml").write_text(f"a = {'[' * 100_000}")
    with pytest.raises(ConfigError, match=r"deep.toml: is not valid TOML"):
        read_toml(tmp_path / "deep.toml")


@pytest.mark.parametrize("values", [None, 1, "x", [], [["d_model", 8]]])
def test_what_is_no_section_is_refused_in_words(values):
    with pytest.raises(ConfigError, match=r"model: found .*, expected a section with settings\."):
        ModelConfig.from_mapping(values)


@pytest.mark.parametrize(
    ("named", "pair"), [("en-de", ("en", "de")), ("zh_Hant-pt_BR", ("zh-Hant", "pt-BR")), ("", None)]
)
def test_a_run_says_its_languages_or_that_it_does_not_know_them(named, pair):
    config = RunConfig(text=TextConfig(languages=named))
    assert config.languages == pair
    assert config.decode.src_language == (pair[0] if pair else "")
    assert pair is None or name_languages(*pair) == named
    assert name_languages("en", "") == ""


@pytest.mark.parametrize("wrong", ["ende", "en-", "e-de", "en-de-fr", "English-German"])
def test_languages_that_cannot_be_read_are_named(wrong):
    with pytest.raises(ConfigError, match=rf"text\.languages: found '{wrong}', expected .* --langs en-de"):
        TextConfig(languages=wrong)


SAMPLING = DecodeConfig(sample=True, top_k=5)


def test_options_of_search_turn_the_sampling_of_a_run_off_and_those_of_sampling_on():
    assert SAMPLING.with_changes({"beam": 5}).sample is False
    assert SAMPLING.with_changes({"beam": 1}).sample is False
    assert SAMPLING.with_changes({"top_k": 3}).sample is True
    for name in IMPLY_SAMPLING:
        assert DecodeConfig().with_changes({name: getattr(DecodeConfig(), name)}).sample is True
    assert DecodeConfig().with_changes({"sample": False, "top_k": 3}).sample is False
    with pytest.raises(ConfigError, match="found with sampling"):
        DecodeConfig().with_changes({"beam": 5, "top_p": 0.9})


@pytest.mark.parametrize("idle", [{"beam": 5}, {"coverage_penalty": 1.0}, {"beam": 4}])
def test_search_and_sampling_at_once_are_refused(idle):
    with pytest.raises(ConfigError, match="found with sampling, on which it has no effect"):
        DecodeConfig().with_changes({"sample": True, **idle})


@pytest.mark.parametrize(
    ("name", "neutral", "other"),
    [("beam_groups", 1, 2), ("diversity", 0.5, 0.7), ("diversity", 0, -1.0), ("cuda_graphs", "off", "on")],
)
def test_a_retired_setting_is_left_out_where_it_changed_nothing_and_refused_elsewhere(name, neutral, other):
    assert DecodeConfig.from_mapping({"beam": 3, name: neutral}) == DecodeConfig(beam=3)
    assert DecodeConfig().with_changes({name: neutral}) == DecodeConfig()
    values = {"decode": {}}
    apply_overrides(values, [f"decode.{name}={neutral}"])
    assert RunConfig.from_mapping(values) == RunConfig()
    (commit,) = {last for key, (_, last) in DecodeConfig.retired.items() if key == name}
    message = rf"^decode\.{name}: found {other!r}, expected .*, or use commit {commit}, the last that has it\.$"
    with pytest.raises(ConfigError, match=message):
        RunConfig.from_mapping({"decode": {name: other}})


def test_each_retired_setting_is_gone_and_has_a_commit_and_a_value_without_effect():
    for section in (ModelConfig, TextConfig, TrainConfig, DecodeConfig):
        for name, (neutral, last_commit) in section.retired.items():
            assert name not in {field.name for field in fields(section)}
            assert neutral
            assert re.fullmatch("[0-9a-f]{7,40}", last_commit)
