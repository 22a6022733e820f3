"""What ``gpu.py`` times: what a card can do at all, steps of training, and translating, beside other systems."""

import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
from decoding import SEARCHES
from decoding_models import convert_model, output_limit, sentences_of
from decoding_systems import NEEDS, Search, Setting, is_installed
from decoding_systems import SYSTEMS as TRANSLATORS
from gpu_stages import Bench, Cell, check, of_peer, products_in, seconds_of, speed
from training import work_of
from training_systems import SYSTEMS, Step, batches_of, config_of, glassformer_step, missing

PRECISIONS = ("float32", "tf32", "bf16")
# For each arm: the system, and the function that builds its step for a config, a precision and a device.
TRAINERS: dict[str, tuple[str, Callable[..., Step]]] = {
    "glassformer": ("glassformer", partial(glassformer_step, compiled=True)),
    "glassformer, not compiled": ("glassformer", glassformer_step),
    **{SYSTEMS[name][0]: (name, SYSTEMS[name][2]) for name in ("hf", "torch", "x-transformers")},
}
LOSS_BOUNDS = {"float32": 1e-4, "tf32": 1e-3, "bf16": 1e-2}
DECODERS = {
    "glassformer": ("glassformer", "float32"), "glassformer, bf16": ("glassformer", "bf16"),
    "glassformer, engine ctranslate2": ("engine", "float32"),
    "glassformer, engine ctranslate2, float16": ("engine", "float16"),
    "Hugging Face generate": ("hf", "float32"), "Hugging Face generate, bf16": ("hf", "bf16"),
    "CTranslate2, float16": ("ct2", "float16"), "CTranslate2, int8": ("ct2", "int8"),
}  # fmt: skip
OURS = ("glassformer", "engine")
ROUNDS = 5


def ceilings(bench: Bench) -> dict[str, Cell]:
    """Matrix products and a copy."""
    products = {f"product, {precision}": partial(product, bench, precision) for precision in PRECISIONS}
    return {**products, "copy": partial(copy_speed, bench)}


def product(bench: Bench, precision: str) -> dict[str, Any]:
    """Operations a second of a square product, where a multiply-add counts as two."""
    size = 128 if bench.smoke else 8192
    kind = torch.bfloat16 if precision == "bf16" else torch.float32
    left, right = (torch.randn(size, size, device=bench.device, dtype=kind) for _ in range(2))
    with products_in(precision):
        seconds = seconds_of(bench, [lambda: left @ right] * 20, warm_up=5)
    return {"size": size, "operations/s": speed([2.0 * size**3] * 20, seconds)}


def copy_speed(bench: Bench) -> dict[str, Any]:
    """Bytes a second that are read and written."""
    count = 2**16 if bench.smoke else 2**30
    source = torch.zeros(count, dtype=torch.uint8, device=bench.device)
    target = torch.empty_like(source)
    seconds = seconds_of(bench, [lambda: target.copy_(source)] * 20, warm_up=5)
    return {"bytes": count, "bytes/s": speed([2.0 * count] * 20, seconds)}


def training(bench: Bench, precisions: tuple[str, ...] = ("bf16",)) -> dict[str, Cell]:
    """A step of each system for each size and precision, and its peak memory."""
    sizes = ("tiny",) if bench.smoke else ("base", "small", "big")
    cells: dict[str, Cell] = {}
    for precision in precisions[:1] if bench.smoke else precisions:
        for size in sizes:
            for arm, (system, _) in TRAINERS.items():
                if bench.smoke and arm == "glassformer" and precision != "bf16":
                    continue  # compiling once is enough
                measure = partial(step_speed, bench, size, precision, arm)
                cells[f"{size}, {precision}, {arm}"] = measure if system == "glassformer" else of_peer(bench, measure)
    return cells


def step_speed(bench: Bench, size: str, precision: str, arm: str) -> dict[str, Any]:
    """Target tokens a second of forward, loss, backward and Adam without dropout, the loss checked before.

    The operations are those of the matrix products without padding, forward and twice as many backward; ``share`` is
    what they come to of the product of 8192 x 8192 in the same precision.
    """
    system, build = TRAINERS[arm]
    if system in missing():
        return {"left_out": f"{SYSTEMS[system][1]} is not installed"}
    config = config_of(size, 0.0)
    cells, pairs = (64, 40) if bench.smoke else (25_000, 16_000)
    batches = batches_of(1, cells, pairs)[: 2 if bench.smoke else 4]
    on_device = [batch.to(bench.device) for batch in batches]
    with products_in(precision) as cast:
        torch.manual_seed(1)
        step = build(config, cast, bench.device)
        expected = cpu_loss(size, arm)
        apart = abs(float(step(_first_batch().to(bench.device))) - expected) / expected
        if bench.on_gpu:
            torch.cuda.reset_peak_memory_stats()
        rounds = 1 if bench.smoke else ROUNDS
        seconds = seconds_of(bench, [partial(step, batch) for batch in on_device] * rounds, warm_up=len(batches))
    peak = torch.cuda.max_memory_allocated() / 2**20 if bench.on_gpu else None
    operations = [2 * work_of(config, batch) for batch in batches] * rounds
    tokens = [float(batch.target_tokens) for batch in batches] * rounds
    achieved = median([work / spent for work, spent in zip(operations, seconds, strict=True)])
    ceiling = bench.cells("ceilings").get(f"product, {precision}", {}).get("operations/s", {}).get("median")
    return {
        "tokens/s": speed(tokens, seconds), "operations_per_s": achieved,
        "share": ceiling and achieved / ceiling, "peak_mib": peak, "target_tokens_a_batch": median(tokens),
        "checks": [check("loss", apart, LOSS_BOUNDS[precision])],
    }  # fmt: skip


def _first_batch() -> Any:
    return batches_of(2, 128, 40)[0]


@cache
def cpu_loss(size: str, arm: str) -> float:
    """The loss of a small batch with the same first weights on the CPU."""
    torch.manual_seed(1)
    return float(TRAINERS[arm][1](config_of(size, 0.0), "float32", torch.device("cpu"))(_first_batch()))


def decoding(bench: Bench) -> dict[str, Cell]:
    """The cells of decoding.py for each system."""
    models = ("small",) if bench.smoke else ("base", "small")
    cells: dict[str, Cell] = {}
    for name in models:
        for kind in ("beam",) if bench.smoke else ("beam", "single", "greedy"):
            for arm, (system, _) in DECODERS.items():
                measure = partial(translating_speed, bench, name, kind, arm)
                cells[f"{name}-{kind}, {arm}"] = measure if system in OURS else of_peer(bench, measure)
    return cells


def translating_speed(bench: Bench, name: str, kind: str, arm: str) -> dict[str, Any]:
    """Sentences a second by the clock, ids in and out, and whether outputs are those of glassformer on the CPU."""
    system, precision = DECODERS[arm]
    if not is_installed(system):
        return {"left_out": f"{NEEDS[system]} is not installed"}
    if system in ("ct2", "engine"):
        convert_model(name, None, bench.scratch)
        precision = "float32" if bench.smoke and precision == "float16" else precision  # which a CPU does not have
    beam, one_by_one = SEARCHES[kind]
    count = (2 if bench.smoke else 16) if one_by_one else (4 if bench.smoke else 512)
    ids = sentences_of(None, None, count)
    search = Search(beam, output_limit(name, None), one_by_one, 100_000 if system in OURS else 512)
    setting = Setting(system, precision, torch.get_num_threads(), device=bench.device.type)
    rounds = 2 if bench.smoke else ROUNDS
    with products_in("float32"):
        translate = TRANSLATORS[system](name, None, bench.scratch, setting)
        few = ids[: 4 if bench.smoke else 16]
        pairs = zip(translate(few, search), cpu_outputs(name, kind, len(few)), strict=True)
        differ = sum(found != expected for found, expected in pairs)
        seconds = [_seconds(bench, lambda: translate(ids, search)) for _ in range(rounds + 1)][1:]
    exact = system == "glassformer" and precision == "float32"
    checks = [check("other outputs", differ, 0)] if exact else []
    return {
        "sentences/s": speed([float(count)] * rounds, seconds), "same_outputs": [len(few) - differ, len(few)],
        "checks": checks,
    }  # fmt: skip


def _seconds(bench: Bench, run: Callable[[], Any]) -> float:
    """By the clock, because the CPU's share of the work counts."""
    bench.wait()
    start = time.perf_counter()
    run()
    bench.wait()
    return time.perf_counter() - start


@cache
def cpu_outputs(name: str, kind: str, count: int) -> list[list[int]]:
    """Those of glassformer in float32."""
    beam, one_by_one = SEARCHES[kind]
    setting = Setting("glassformer", "float32", torch.get_num_threads())
    translate = TRANSLATORS["glassformer"](name, None, Path(), setting)
    return translate(sentences_of(None, None, count), Search(beam, output_limit(name, None), one_by_one, 1024))
