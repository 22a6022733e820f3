"""Which models lead where: directly, by way of a third language, or not at all."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from glassformer.bundled import BUNDLED
from glassformer.errors import ConfigError, RunError
from glassformer.run_directory import RunDirectory
from glassformer.serving.http_errors import HTTPError
from glassformer.serving.languages import Languages, ServedModel, language_name, read_models
from glassformer.serving.service import Options
from glassformer.settings import DecodeConfig, RunConfig


def served(*pairs: str) -> Languages:
    return Languages(tuple(ServedModel(Path(pair), *pair.split(">")) for pair in pairs))


def names(languages: Languages, source: str, target: str) -> list[str]:
    return [model.name for model in languages.route(source, target)]


def test_a_pair_without_a_model_goes_by_way_of_a_third_language():
    languages = served("en>de", "fr>en", "de>pt-BR")
    assert names(languages, "en", "de") == ["en-de"]
    assert names(languages, "fr", "de") == ["fr-en", "en-de"]
    assert names(languages, "en", "en") == []
    assert languages.targets("fr") == ["en", "de", "fr"]
    with pytest.raises(
        HTTPError, match=r"Portuguese \(Brazil\) \(pt-BR\) is not available as a target language from French"
    ):
        languages.route("fr", "pt-BR")


def test_each_request_has_its_target_of_a_model_of_several():
    languages = served("en>mul").with_targets({Path("en>mul"): ("deu", "spa")})
    assert (languages.codes, languages.targets("en")) == (["en", "de", "es"], ["en", "de", "es"])
    (model,) = languages.route("en", languages.read("ES"))
    assert (model.name, model.token) == ("en-es", "spa")
    several = SimpleNamespace(targets=("deu", "spa"), config=DecodeConfig())
    assert Options().settings(several, model.token).tgt_language == "spa"
    assert Options().settings(SimpleNamespace(targets=(), config=DecodeConfig()), "").tgt_language == ""


@pytest.mark.parametrize(
    ("given", "found"), [("EN", "en"), ("de-AT", "de"), ("pt_br", "pt-BR"), ("pb", "pt-BR"), ("pt", "pt-BR")]
)
def test_codes_are_read_in_the_forms_that_clients_send(given, found):
    assert served("en>de", "de>pt-BR").read(given) == found


def test_an_unknown_code_is_named_in_the_words_of_the_contract():
    with pytest.raises(HTTPError, match=r"^xx is not supported$"):
        served("en>de").read("xx")


def test_languages_have_names_and_what_nobody_has_named_its_code():
    assert (language_name("de"), language_name("qqq"), language_name("!")) == ("German", "qqq", "!")


@pytest.fixture
def nameless(tmp_path: Path) -> Path:
    """A run that does not say its languages."""
    (tmp_path / "a").mkdir()
    RunDirectory(tmp_path / "a").write_config(RunConfig(), {})
    return tmp_path / "a"


def test_the_bundled_model_says_its_languages_and_others_are_asked_for_theirs(nameless):
    assert [model.name for model in read_models([BUNDLED], []).models] == ["en-de"]
    assert [model.name for model in read_models([nameless, BUNDLED], ["fr-en"]).models] == ["fr-en", "en-de"]


@pytest.mark.parametrize(
    ("runs", "langs", "message"),
    [
        (["a"], [], "does not say which languages it translates, expected --langs"),
        (["a"], ["german"], "expected two codes of languages"),
        ([BUNDLED], ["fr-en"], "expected no further ones"),
        (["a", BUNDLED], ["en-de"], "expected one model for each pair"),
    ],
)
def test_languages_that_are_missing_or_too_many_are_named(nameless, runs, langs, message):
    with pytest.raises(ConfigError, match=message):
        read_models([nameless if run == "a" else run for run in runs], langs)


@pytest.mark.parametrize("langs", [[], ["en-de"]])
def test_a_run_that_is_not_there_is_not_asked_for_its_languages(langs):
    with pytest.raises(RunError, match="nowhere: is not a run directory: it does not exist"):
        read_models([Path("nowhere")], langs)
