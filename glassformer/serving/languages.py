"""The served models, and which of them lead from one language to another. Knows nothing of requests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from babel.core import get_global

from glassformer.errors import ConfigError
from glassformer.run_directory import RunDirectory
from glassformer.serving.http_errors import HTTPError, bad_request
from glassformer.settings import language_name

_ALIASES = {"pb": "pt-br", "zh": "zh-hans", "zt": "zh-hant"}
NEEDED = "needs py3langid, which is not installed here. Install it in the clone: pip install '.[detect]'"


class ServedModel(NamedTuple):
    """A run directory and the languages that it translates from and to."""

    path: Path
    source: str
    target: str
    token: str = ""
    """The target as a model of several names it."""

    @property
    def name(self) -> str:
        """Its languages, such as en-de."""
        return f"{self.source}-{self.target}"


@dataclass(frozen=True)
class Languages:
    """All served models, one for a pair of languages."""

    models: tuple[ServedModel, ...]

    @cached_property
    def codes(self) -> list[str]:
        """Every language, in the order of the models."""
        return list(dict.fromkeys(code for model in self.models for code in (model.source, model.target)))

    @cached_property
    def routes(self) -> dict[tuple[str, str], tuple[ServedModel, ...]]:
        """One model for each pair of languages, or where there is none, two."""
        found: dict[tuple[str, str], tuple[ServedModel, ...]] = {
            (one.source, one.target): (one,) for one in self.models
        }
        for first, second in product(self.models, repeat=2):
            if first.target == second.source and first.source != second.target:
                found.setdefault((first.source, second.target), (first, second))
        return found

    def with_targets(self, tokens: Mapping[Path, Sequence[str]]) -> "Languages":
        """The same, with an entry for each target of a model that has several, which these tokens name."""
        shorter, found = get_global("language_aliases"), list[ServedModel]()  # deu is de
        for one in self.models:
            found += [one._replace(target=shorter.get(token, token), token=token) for token in tokens[one.path]] or [
                one
            ]
        return Languages(tuple(found))

    def targets(self, source: str) -> list[str]:
        """The targets of a language, itself included."""
        return [code for code in self.codes if code == source or (source, code) in self.routes]

    def read(self, code: str) -> str:
        """The served language of a client's code, such as EN-GB; ``HTTPError`` if there is none."""
        wanted = _ALIASES.get(code.strip().lower(), code.strip().lower()).replace("_", "-")
        known = {served.lower().partition("-")[0]: served for served in reversed(self.codes)}
        known |= {served.lower(): served for served in self.codes}
        found = known.get(wanted) or known.get(wanted.partition("-")[0])
        if found is None:
            raise HTTPError(400, f"{code[:40]} is not supported")
        return found

    def route(self, source: str, target: str) -> tuple[ServedModel, ...]:
        """The models from one language to another, none for the same one; ``HTTPError`` if none do."""
        if source == target or (source, target) in self.routes:
            return self.routes.get((source, target), ())
        wanted, given = (f"{language_name(code)} ({code})" for code in (target, source))
        raise HTTPError(400, f"{wanted} is not available as a target language from {given}")

    def detect(self, text: str) -> list[dict[str, Any]]:
        """The served languages that a text may be in, best first, in percent; ``HTTPError`` without py3langid."""
        if find_spec("py3langid") is None:
            raise bad_request(f"the detection of languages {NEEDED}; else name the source language")
        by_code = {code.partition("-")[0]: code for code in reversed(self.codes)}
        ranked = _identifier(tuple(by_code)).rank(text) if any(map(str.isalpha, text)) else []
        found = [(round(100 * float(chance), 1), by_code[code]) for code, chance in ranked if code in by_code]
        return [{"confidence": one, "language": code} for one, code in found or [(0.0, self.codes[0])]]


@cache
def _identifier(codes: tuple[str, ...]) -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    identifier.set_languages(sorted(set(identifier.labels) & set(codes)) or None)
    return identifier


def read_models(runs: Sequence[Path], langs: Sequence[str]) -> Languages:
    """The models of run directories; ``langs``, such as en-de, belong to those that do not name theirs, in order.

    Raises ``ConfigError`` for missing, surplus or malformed languages and for two models of one pair, ``RunError``
    for what is no run directory.
    """
    given, models = iter(langs), dict[tuple[str, str], ServedModel]()
    for run in runs:
        pair = RunDirectory(run).read_config()[0].languages or _read_pair(next(given, None), run)
        if pair in models:
            raise ConfigError(
                f"--run {run}: translates from {pair[0]} to {pair[1]}, as {models[pair].path} does, expected one "
                "model for each pair of languages. Leave one out."
            )
        models[pair] = ServedModel(run, *pair)
    if (left := next(given, None)) is not None:
        raise ConfigError(f"--langs {left}: every run has its languages, expected no further ones. Leave it out.")
    return Languages(tuple(models.values()))


def _read_pair(langs: str | None, run: Path) -> tuple[str, str]:
    if langs is None:
        raise ConfigError(
            f"--run {run}: does not say which languages it translates, expected --langs with them: --langs en-de."
        )
    source, dash, target = langs.partition("-")
    if not dash or not source.isalpha() or not target.replace("-", "").isalnum():
        raise ConfigError(f"--langs: found {langs!r}, expected two codes of languages: --langs en-de.")
    return source.lower(), target
