"""Trainings that are killed at their file-system events, from the first to the last: the same command goes on."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parents[1]
STRIDE = os.environ.get("KILL_STRIDE", "7")  # 1: at every event


@pytest.mark.slow
def test_a_training_killed_at_any_file_system_event_goes_on_to_the_same_weights(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (HERE.parents[1], HERE)))}
    command = [sys.executable, str(HERE / "kill.py"), str(tmp_path), STRIDE]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["kills"] > report["before_checkpoint"] > report["before_config"] > 0
