"""The files in deploy/ name options, paths and limits that the server has."""

import shlex
from pathlib import Path

import pytest

from glassformer.serving.config import ServeConfig

yaml = pytest.importorskip("yaml", reason="PyYAML is an extra: pip install '.[import]'")
DEPLOY = Path(__file__).parents[2] / "deploy"
POD = next(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))["spec"]["template"]["spec"]
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["glassformer"]
UNIT = (DEPLOY / "glassformer.service").read_text()
DRAIN_S = ServeConfig().drain_s


def options(words: list[str]) -> set[str]:
    return {word for word in words if word.startswith("--")}


def test_every_option_is_one_of_the_command():
    line = next(line for line in UNIT.splitlines() if line.startswith("ExecStart="))
    given = options(shlex.split(line)) | options(POD["containers"][0]["args"])
    page = (DEPLOY.parent / "docs/commands/serve.md").read_text()
    assert given
    assert all(f"`{one} " in page or f"`{one}/" in page for one in given)


def test_a_stop_may_take_as_long_as_the_server_drains():
    assert POD["terminationGracePeriodSeconds"] > DRAIN_S + 5
    assert float(COMPOSE["stop_grace_period"].removesuffix("s")) > DRAIN_S
    assert float(UNIT.partition("TimeoutStopSec=")[2].split()[0]) > DRAIN_S


def test_nothing_is_root_or_writes_outside_tmp_and_the_cache():
    container = POD["containers"][0]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert POD["securityContext"]["runAsNonRoot"]
    assert COMPOSE["read_only"]
    assert "USER 10001" in (DEPLOY / "Dockerfile").read_text()
    assert {"DynamicUser=yes", "ProtectSystem=strict"} <= set(UNIT.splitlines())
    writable = {one["mountPath"] for one in container["volumeMounts"] if not one.get("readOnly")}
    assert writable == {one.partition(":")[0] for one in COMPOSE["tmpfs"]} == {"/tmp", "/cache"}


def test_the_dockerfile_copies_what_the_ignore_file_lets_in():
    allowed = {line[1:] for line in (DEPLOY.parent / ".dockerignore").read_text().splitlines() if line[:1] == "!"}
    copies = [
        line.split()[1:-1] for line in (DEPLOY / "Dockerfile").read_text().splitlines() if line.startswith("COPY ")
    ]
    copied = {name for names in copies for name in names if not name.startswith("/") and not name.startswith("--")}
    assert copied == allowed
    assert all((DEPLOY.parent / name).exists() for name in copied)
