"""The page of commands and one for each of them, from the functions that implement them."""

import inspect
import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, get_args

from glassformer import errors
from glassformer.cli.main import app
from glassformer.cli.options import INTERRUPTED, OUR_FAULT, TERMINATED, option_name
from reference.markdown import code, page, prose, table

VALUE_WORDS = {int: "N", float: "X", str: "TEXT", Path: "PATH"}


def commands_page() -> str:
    """All commands, each in a line, and what the exit codes mean."""
    return page(
        "Commands",
        "`glassformer COMMAND --help` prints this on your terminal, and `glassformer --version` the version."
        " Settings without an option of their own are set with `--set section.key=value`: see "
        "[settings](settings.md).",
        table(["command", "what it does"], map(_line, commands().items())),
        "## Exit codes",
        "Each error is one message on standard error that says what was found, what was expected and what to do.",
        table(["code", "meaning"], exit_codes()),
    )


def commands() -> dict[str, Callable[..., Any]]:
    """The functions that implement the commands, by their names."""
    found = ((registered.name, registered.callback) for registered in app.registered_commands)
    return {name or callback.__name__: callback for name, callback in found if callback}


def command_pages() -> dict[str, Callable[[], str]]:
    """What makes the page of each command, by its path in docs."""
    return {f"commands/{name}.md": partial(command_page, name, callback) for name, callback in commands().items()}


def _line(command: tuple[str, Callable[..., Any]]) -> list[str]:
    name, callback = command
    return [f"[{name}](commands/{name}.md)", about(callback).partition("\n")[0].split(". ")[0].rstrip(".") + "."]


def about(callback: Callable[..., Any]) -> str:
    """What a command does, without its examples."""
    return prose(re.sub(r"\[bold\].*?\[/bold\]", "", inspect.getdoc(callback) or "")).strip()


def command_page(name: str, callback: Callable[..., Any]) -> str:
    """What a command does, its examples, its arguments and options."""
    examples = re.findall(r"\[bold\](.*?)\[/bold\]", inspect.getdoc(callback) or "")
    return page(
        f"glassformer {name}",
        about(callback),
        "```sh\n" + "\n".join(examples) + "\n```" if examples else "",
        table(["argument or option", "meaning", "default"], parameters(callback)),
        "All [commands](../commands.md), [settings](../settings.md) and [exit codes](../commands.md#exit-codes).",
    )


def parameters(callback: Callable[..., Any]) -> Iterator[list[str]]:
    for name, parameter in inspect.signature(callback).parameters.items():
        (info,) = parameter.annotation.__metadata__
        kind = plain_type(parameter.annotation.__origin__)
        if type(info).__name__ == "ArgumentInfo":
            shown = info.metavar or name.upper()
        else:
            shown = option_name(parameter)
            shown += "" if kind is bool else f" {info.metavar or VALUE_WORDS[kind]}"
        default = parameter.default
        required = "required" if default is inspect.Parameter.empty else ""
        meaning = (info.help or "").replace("\\[", "[")  # in a help text a bracket alone is rich's markup
        yield [code(shown), meaning, required or code("" if default in (None, False) else default)]


def plain_type(hint: Any) -> Any:
    """``list[str] | None`` as ``str``."""
    inner = [arg for arg in get_args(hint) if arg is not type(None)]
    return plain_type(inner[0]) if inner else hint


def exit_codes() -> Iterator[list[str]]:
    yield ["`0`", "Success. Also if the reader of the output ended first (`| head`)."]
    yield ["`1`", "`diff`: the two sides differ. `trace --verify`: a check failed."]
    base = errors.GlassformerError
    classes = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, base)]
    known = sorted((kind for kind in classes if kind is not base), key=lambda kind: kind.exit_code)
    for number, kinds in groupby(known, key=lambda kind: kind.exit_code):
        meanings = [prose(kind.__doc__) for kind in kinds]
        if number == base.exit_code:
            meanings = ["An unknown option, or a value that an option does not take.", *meanings]
        yield [code(number), " ".join(meanings)]
    yield [code(OUR_FAULT), "A fault of glassformer itself; the message names a file with the details for a report."]
    yield [code(INTERRUPTED), "Interrupted (Ctrl-C). A training has saved its state: the same command continues."]
    yield [code(TERMINATED), "A training was ended by SIGTERM and has saved its state: the same command continues."]
