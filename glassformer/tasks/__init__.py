"""Parallel corpora that are generated on the spot."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import partial

from glassformer.errors import ConfigError, check_type, nearest
from glassformer.tasks.dates import dates
from glassformer.tasks.phrasebook import LANGUAGES, phrasebook
from glassformer.tasks.task import Task

__all__ = ["TASKS", "Task", "load_task"]

TASKS: dict[str, Callable[[int], Task]] = {
    "dates": dates,
    **{f"phrasebook-{language}": partial(phrasebook, language) for language in LANGUAGES},
}


def load_task(name: str, *, seed: int = 1) -> Task:
    """Generate a task; the same name and seed give the same pairs."""
    check_type("task", name, str, "the name of a task, a str")
    if name not in TASKS:
        raise ConfigError(f"task: there is no task named {name!r}.{nearest(name, TASKS)} Known: {', '.join(TASKS)}.")
    task = TASKS[name](seed)
    return replace(task, settings=deepcopy(task.settings))
