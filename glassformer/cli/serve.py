"""The command ``serve``."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli import options as opt
from glassformer.cli.options import option
from glassformer.errors import ConfigError
from glassformer.serving.config import ServeConfig

_RUNS = "The run directory of a trained model; repeat for further languages; by default bundled, English to German"
_LANGS = "The languages of the runs that do not say theirs, in their order: en-de; repeat for several"
_NEEDED = (
    "starlette", "uvicorn", "msgspec", "prometheus_client", "python_multipart", "httptools", "cachetools", "limits"
)  # fmt: skip


@opt.options()
def serve(
    run: Annotated[list[Path] | None, option(_RUNS, "--run", metavar="DIR")] = None,
    langs: Annotated[list[str] | None, option(_LANGS, "--langs", metavar="LANGS")] = None,
    *,
    config: ServeConfig,
) -> None:
    """Serve models over HTTP, for programs that speak LibreTranslate, DeepL, OpenAI, or our own contract.

    [bold]glassformer serve[/bold]
    [bold]glassformer serve --run runs/first --langs en-de --host 0.0.0.0 --keys keys.txt[/bold]
    """
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"serve: needs {', '.join(missing)}, not installed here, expected the extra serve. In the clone: "
            "pip install '.[serve]'."
        )
    opt.require_one_process("serve", "its threads share the machine")
    from glassformer.serving.server import run_server

    run_server(opt.runs_or_bundled(run), langs or [], config, lambda line: typer.echo(line, err=True))
