"""Parallel corpora that are generated on the spot: deterministic, and nothing is downloaded."""

from glassformer.tasks.catalogue import TASK_NAMES, load_task
from glassformer.tasks.task import Task

__all__ = ["TASK_NAMES", "Task", "load_task"]
