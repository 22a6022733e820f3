"""Languages: their tags, such as zh-TW, and the names by which people call them above a column."""

import re
from collections.abc import Iterable
from functools import cache

from glassformer.errors import TextError

Languages = tuple[str, str]
"""The tags of a source and of a target language."""
_CHINESE_SCRIPTS = {"cn": "hans", "sg": "hans", "tw": "hant", "hk": "hant", "mo": "hant"}
_TAG = re.compile(r"[a-z]{2,3}(?:[-_][a-z0-9]{2,8})*")
_LONGEST_NAME = 30


def same_language(tag: str, other: str) -> bool:
    """Whether two tags name the same language in the same script, whatever the country: en and en-US, not zh-TW."""
    (language, script), (other_language, other_script) = _language_and_script(tag), _language_and_script(other)
    return language == other_language and (script == other_script or not (script and other_script))


def _language_and_script(tag: str) -> tuple[str, str]:
    language, *rest = tag.lower().replace("_", "-").split("-")
    script = next((part for part in rest if len(part) == 4 and part.isalpha()), "")
    if language == "zh" and not script:
        script = next((_CHINESE_SCRIPTS[part] for part in rest if part in _CHINESE_SCRIPTS), "")
    return language, script


def choose_languages(found: Iterable[str], wanted: Languages, where: object) -> Languages:
    """Those of the tags that are ``wanted``; ``TextError`` if one is missing."""
    tags = list(dict.fromkeys(found))
    alike = [[tag for tag in tags if same_language(tag, each)] for each in wanted]
    if not all(alike):
        named = "-".join(tags) if len(tags) == 2 else ", ".join(tags)
        raise TextError(
            f"{where}: found {named}, expected {'-'.join(wanted)}, as text.languages says. Name the "
            "languages that the file has, or give another file."
        )
    src, tgt = (each if each in some else some[0] for each, some in zip(wanted, alike, strict=True))
    return src, tgt


def find_language(name: str) -> str:
    """The tag of a language by its code, or by its name in English or in itself; empty if nobody calls one so."""
    name = name.strip().lower()
    if len(name) > _LONGEST_NAME or not name:
        return ""
    codes, names = _english_names()
    if _TAG.fullmatch(name):
        code, _, rest = name.replace("_", "-").partition("-")
        if code in codes:
            return f"{codes[code]}-{rest}" if rest else codes[code]
    return names.get(name) or _own_names().get(name, "")


@cache
def _english_names() -> tuple[dict[str, str], dict[str, str]]:
    """The codes of languages, each with the one to use, and their English names."""
    from babel import Locale  # takes time
    from babel.core import get_global

    names = Locale("en").languages
    codes = {str(code): str(code) for code in names}
    codes |= {str(old): str(new) for old, new in get_global("language_aliases").items()}
    return codes, {name.lower(): code.lower().replace("_", "-") for code, name in names.items()}


@cache
def _own_names() -> dict[str, str]:
    from babel import Locale, localedata

    codes = [code for code in localedata.locale_identifiers() if "_" not in code]
    return {Locale(code).languages.get(code, "").lower(): code for code in codes}
