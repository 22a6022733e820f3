"""Run directories that somebody crafted: each command uses or refuses them, soon, and touches nothing outside."""

import itertools
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

from laboratory import Clock, Laboratory, Tally

from glassformer.checkpoint import MANIFEST, checkpoints
from glassformer.files import sha256

GENERATED = 50
DEEP = "[" * 100_000 + "]" * 100_000
VALUES: list[Any] = [
    0, -1, 2**31, 2**63, 10**30, 1e308, -0.0, True, None, "", "x", "\0", "../../mine", "/", "a" * 10**6, [], [0], {},
    {"a": {}}, [[[]]], "\ud800", float("nan"), float("inf"), "__import__('os').system('touch mine2')",
]  # fmt: skip


def reseal(checkpoint: Path) -> None:
    """A manifest that fits whatever the files hold now."""
    files = [path for path in checkpoint.iterdir() if path.name != MANIFEST and path.is_file()]
    sums = {path.name: {"sha256": sha256(path), "size": path.stat().st_size} for path in files}
    manifest = json.loads((checkpoint / MANIFEST).read_text())
    (checkpoint / MANIFEST).write_text(json.dumps({**manifest, "files": sums}))


def sealed(run: Path) -> list[Path]:
    """The checkpoints that commands use."""
    return [checkpoints(run / series)[-1] for series in ("final", "best", "latest")]


def write_everywhere(run: Path, name: str, content: str | bytes) -> None:
    """A file with this content, in each checkpoint and resealed, or in the run."""
    raw = content.encode(errors="surrogatepass") if isinstance(content, str) else content
    if name in {"state.json", "model.safetensors", "optimizer.safetensors", "random.safetensors"}:
        for checkpoint in sealed(run):
            if (checkpoint / name).exists():
                (checkpoint / name).write_bytes(raw)
                reseal(checkpoint)
    elif name == MANIFEST:
        for checkpoint in sealed(run):
            (checkpoint / name).write_bytes(raw)
    else:
        (run / name).write_bytes(raw)


def header(text: str | bytes, length: int | None = None) -> bytes:
    """A safetensors file with this header."""
    raw = text.encode() if isinstance(text, str) else text
    return (len(raw) if length is None else length).to_bytes(8, "little") + raw


def tokenizer_with(laboratory: Laboratory, **parts: Any) -> str:
    """The run's tokenizer with other parts."""
    return json.dumps({**json.loads((laboratory.run / "tokenizer.src.json").read_text()), **parts})


def crafted(laboratory: Laboratory) -> Iterator[tuple[str, Callable[[Path], object]]]:
    """What each one is, and what makes it of a run."""
    doubling = [{"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}] * 34
    hostile_tokenizers = {
        "34 doubling replacements": {"normalizer": {"type": "Sequence", "normalizers": doubling}},
        "a prefix of 10^7 letters": {"normalizer": {"type": "Prepend", "prepend": "a" * 10**7}},
        "a table that panics": {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}},
        "truncation": {"truncation": {"direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 0}},
        "an expression that never ends": {"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(a+)+$"},
                                                            "behavior": "Isolated", "invert": False}},
    }  # fmt: skip
    for what, parts in hostile_tokenizers.items():
        text = tokenizer_with(laboratory, **parts)
        yield f"tokenizer: {what}", lambda run, text=text: write_everywhere(run, "tokenizer.src.json", text)
    jsons = {
        "deep JSON": DEEP, "NaN": "NaN", "a list": "[]", "a number": "1", "nothing": "", "not UTF-8": b"\xff\xfe",
        "a key twice": '{"config": {}, "config": 1}', "10^6 digits": '{"format": 1' + "0" * 10**6 + "}",
        "lone surrogates": '{"config": {"\\ud800": "\\udfff"}, "data": {}}', "60 MB": "[" + "1," * (30 * 10**6) + "1]",
    }  # fmt: skip
    for name in ("config.json", "state.json", MANIFEST, "tokenizer.tgt.json", "text/prepared.json"):
        for what, content in jsons.items():
            yield f"{name}: {what}", lambda run, name=name, content=content: write_everywhere(run, name, content)
    tensor = '{"a": {"dtype": "F32", "shape": [%s], "data_offsets": [0, %s]}}'
    weights = {
        "a header of 2^60 bytes": header("{}", 2**60), "a header of zero bytes": header(""), "no file": b"",
        "deep header": header(DEEP), "10^12 elements": header(tensor % (10**12, 4 * 10**12)),
        "a negative shape": header(tensor % (-1, 4)), "overlapping": header(tensor % ("1", 4)) + bytes(4),
        "a pickle": b"\x80\x04cos\nsystem\n(S'touch mine2'\ntR.", "not JSON": header(b"\xff" * 100),
    }  # fmt: skip
    for name in ("model.safetensors", "optimizer.safetensors", "random.safetensors"):
        for what, content in weights.items():
            yield f"{name}: {what}", lambda run, name=name, content=content: write_everywhere(run, name, content)
    for settings in ({"d_model": 2**20}, {"max_length": 10**6}, {"n_decoder_layers": 10**4}, {"src_vocab": 10**6}):
        yield f"a model of {settings}", lambda run, settings=settings: enlarge(run, settings)
    for name in ("config.json", "tokenizer.src.json", "latest", "final", "text", ".lock", "metrics.jsonl", "train.log",
                 "text/prepared.json", "text/train/src.ids"):  # fmt: skip
        for what, make in FILES.items():
            yield f"{name} is {what}", lambda run, name=name, make=make: replace_by(make, run / name)


def enlarge(run: Path, settings: dict[str, Any]) -> None:
    """Another model in config.json and in each sealed state."""
    document = json.loads((run / "config.json").read_text())
    document["config"]["model"] |= settings
    (run / "config.json").write_text(json.dumps(document))
    for checkpoint in sealed(run):
        state = json.loads((checkpoint / "state.json").read_text())
        state["model"] |= settings
        (checkpoint / "state.json").write_text(json.dumps(state))
        reseal(checkpoint)


def replace_by(make: Callable[[Path], object], path: Path) -> None:
    """Something else in the place of a part of a run."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    make(path)


FILES: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo, "a directory": Path.mkdir, "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to /dev/zero": lambda path: path.symlink_to("/dev/zero"), "a link to /": lambda path: path.symlink_to("/"),
    "a link to a stranger's file": lambda path: path.symlink_to(outside(path) / "mine"),
    "a link to a stranger's directory": lambda path: path.symlink_to(outside(path)),
    "a link to nothing": lambda path: path.symlink_to("nowhere"),
}  # fmt: skip


def outside(path: Path) -> Path:
    """The stranger's directory."""
    return next(parent for parent in path.parents if parent.name == "spoiled").with_name("stranger")


def mutated_run(laboratory: Laboratory, random: Random) -> tuple[str, Callable[[Path], object]]:
    """One to three values of a JSON file become others, and checkpoints are sealed again: what it is, what makes it."""
    name = random.choice(
        ["config.json", "state.json", MANIFEST, "tokenizer.src.json", "text/prepared.json", "text/train/encoded.json"]
    )
    source = sealed(laboratory.run)[-1] / name if name in {"state.json", MANIFEST} else laboratory.run / name
    document, changed = json.loads(source.read_text()), []
    for _ in range(random.randint(1, 3)):
        *parents, last = random.choice(list(_places(document)))
        at = document
        for key in parents:
            at = at[key]
        at[last] = value = random.choice(VALUES)
        changed.append(f"{'.'.join(map(str, (*parents, last)))} = {str(value)[:20]!r}")
        if not isinstance(document, dict) or not list(_places(document)):
            break
    text = json.dumps(document)
    return f"{name}: {', '.join(changed)}", lambda run: write_everywhere(run, name, text)


def _places(value: Any, *path: Any) -> Iterator[tuple[Any, ...]]:
    """The path of each value in a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in items:
        yield (*path, key)
        yield from _places(one, *path, key)


def use_hostile_runs(laboratory: Laboratory, clock: Clock) -> list[Tally]:
    """Each crafted directory and 50 generated ones under each command. What they give out is theirs to say."""
    stranger = laboratory.place / "stranger"
    stranger.mkdir()
    (stranger / "mine").write_text("dear to me")
    tallies = []
    generated = [mutated_run(laboratory, laboratory.random) for _ in range(GENERATED)]
    for title, cases in (("crafted", list(crafted(laboratory))), ("generated", generated)):
        tally = Tally(f"hostile directories: {len(cases)} {title}")
        share = Clock(clock.left() * (0.7 if title == "crafted" else 1))
        laboratory.random.shuffle(cases)
        for what, make in share.while_time(iter(cases)):
            for name in (*laboratory.reading, "average", "train"):
                run = laboratory.copy()
                make(run)
                words = {"average": ["average", "--run", str(run)], "train": laboratory.train(run)}.get(name)
                ended = laboratory.command(*words) if words else laboratory.read(name, run)
                tally.count(f"{what}: {name}", ended, silent=_touched(laboratory))
        tallies.append(tally)
    return tallies


def _touched(laboratory: Laboratory) -> str | None:
    """What was done outside the run."""
    stranger = laboratory.place / "stranger"
    if [path.name for path in stranger.iterdir()] != ["mine"] or (stranger / "mine").read_text() != "dear to me":
        return "a stranger's file was touched"
    return "code was executed" if list(laboratory.place.rglob("mine2")) else None


def odd_options(laboratory: Laboratory, clock: Clock) -> list[Tally]:
    """Values that no option expects, and places that cannot be written: refused in words."""
    tally = Tally("odd options and places")
    odd = ["", "-1", "0", "1", str(10**30), "nan", "inf", "-inf", "1e400", "x", "\udcff", "a" * 300, "a/" * 3000, "/",
           "/dev/full", "/dev/null/x", ".", "\n", "loop/x", "--", "true", "[]", "0.5", "9" * 5000]  # fmt: skip
    (laboratory.place / "loop").symlink_to("loop")
    numbers = ["--workers", "--beam", "--batch-tokens", "--max-length-a", "--max-length-b", "--length-penalty", "--n-best",
               "--temperature", "--top-k", "--top-p", "--seed", "--precision", "--device", "--layer", "--prefix"]  # fmt: skip
    places = {"trace": ["--save", "--json", "--markdown", "--only", "--edit"], "evaluate": ["--out", "--src", "--workers"],
              "translate": ["--out", "--input", "--glossary", "--memory", "--run"], "score": ["--tgt", "--run"],
              "train": ["--run", "--src", "--config", "--init", "--mix", "--model", "--max-updates", "--max-minutes"],
              "average": ["--last", "--run"], "demo": ["--run", "--max-minutes"], "summary": ["--run"],
              "diversify": ["--run", "--src"], "diff": ["--run"]}  # fmt: skip
    cases = [("translate", option, value) for option in numbers for value in odd]
    cases += [(command, option, value) for command, options in places.items() for option in options for value in odd]
    cases = [case for case in cases if not _asks_for_work(*case)]
    laboratory.random.shuffle(cases)
    for command, option, value in clock.while_time(itertools.cycle(cases)):
        given = ["--max-updates", "1"] if command == "train" and option != "--max-updates" else []
        words = [*laboratory.reading.get(command, (command,)), *given, option, value]
        words = words if option == "--run" or command in {"train", "demo", "diversify", "diff"} else [
            *words, "--run", str(laboratory.run)]  # fmt: skip
        ended = laboratory.command(*words)
        tally.count(f"{command} {option} {value[:30]!r}", ended, silent=None)
    return [tally]


def _asks_for_work(command: str, option: str, value: str) -> bool:
    """What would rightly train or start a hundred processes."""
    refused = {"--run": {"", "a" * 300, "a/" * 3000, "/", "/dev/full", "/dev/null/x", "loop/x", "\udcff", "."},
               "--max-minutes": {"", "x", "nan", "--"}}  # fmt: skip
    return command == "demo" and value not in refused[option]
