"""CTranslate2 where it was shown to give what PyTorch gives, else PyTorch.

Both translate the same sentences once a kind of device; the verdict is kept with the export.
"""

import json
import logging
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from importlib.metadata import version
from importlib.util import find_spec
from itertools import islice, product
from pathlib import Path
from typing import TYPE_CHECKING

from glassformer.decoding.batching import read_sources
from glassformer.decoding.engines.agreement import OutputPair, compare_outputs, search_sources
from glassformer.decoding.engines.ctranslate2_engine import (
    CTranslate2Engine,
    differing_options,
    lacking_options,
    split_device,
)
from glassformer.decoding.engines.ctranslate2_run import find_devices, may_have_gpu, open_engine
from glassformer.decoding.engines.engine import SearchResult
from glassformer.decoding.engines.export_cache import find_export
from glassformer.decoding.search.job import SearchJob
from glassformer.decoding.search.outputs import Output
from glassformer.errors import GlassformerError
from glassformer.files import read_json_file, read_json_lines, write_durably
from glassformer.run_directory import RunDirectory
from glassformer.run_directory import logger as run_logger
from glassformer.settings import DecodeConfig, ModelConfig, RunConfig
from glassformer.text.tokenizer.tokenizer import Tokenizer, Tokenizers, check_tokenizers

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

    from glassformer.decoding.engines.torch_engine import TorchEngine

logger = logging.getLogger(__name__)

PROOFS = {"cpu": "proof.json", "cuda": "proof-cuda.json"}  # by kind of device
_SENTENCES = 200
_TOLERANCE = 1e-2  # of a log-probability: <pad> and <s> have 1e-4 a token
_SUBJECTS = (
    "My sister", "The old man", "Nobody in this town", "Tom", "Our new teacher", "The children", "A friend of mine",
    "She", "The woman next door", "I",
)  # fmt: skip
_PREDICATES = (
    "lives in a small house near the river.", "has never seen the sea.", "wants to buy a new car next year.",
    "will be here at half past three.", "can speak three languages.", "forgot to close the window.",
    "would like a cup of coffee, please.", "did not understand the question.", "bought two tickets for 15.50 euros.",
    "was born on 3 March 1987.", "says that it is going to rain.", "must not be late again.",
    "gave me a book about birds.", "had to wait for more than an hour.", "knows why the train was late.",
    "is reading a letter from Mary.", "ate the last piece of cake.", "asked the doctor for help.",
    "could have won if the weather had been better.", "loves to sing, but not to dance!",
)  # fmt: skip


class AutoEngine:
    """CTranslate2 where it agrees with PyTorch, else PyTorch; opened when needed."""

    mean_attention = False

    def __init__(
        self,
        config: ModelConfig,
        open_torch: "Callable[[], TorchEngine]",
        open_fast: "Callable[[TorchEngine | None], CTranslate2Engine | None]",
    ) -> None:
        """``open_fast`` gets the open PyTorch engine; None: no CTranslate2."""
        self.config = config
        self._open_torch, self._open_fast = open_torch, open_fast

    @cached_property
    def torch(self) -> "TorchEngine":
        """The PyTorch engine."""
        return self._open_torch()

    @cached_property
    def fast(self) -> "CTranslate2Engine | None":
        """The CTranslate2 engine, if it translates this run as PyTorch does."""
        return self._open_fast(vars(self).get("torch"))

    @property
    def workers(self) -> int:
        """Threads of CTranslate2 or processes of PyTorch."""
        return (self.fast or self.torch).workers

    @property
    def max_efficient_sources(self) -> int | None:
        """See ``Engine``."""
        return (self.fast or self.torch).max_efficient_sources

    def search(self, jobs: Sequence[SearchJob]) -> Iterator[tuple[int, SearchResult]]:
        """See ``Engine``; raises what the job's engine raises."""
        fast = self.fast
        equal = [number for number, job in enumerate(jobs) if fast and is_equal_search(job)]
        if fast:
            for at, result in fast.search([replace(jobs[number], attention=False) for number in equal]):
                job = jobs[equal[at]]
                if job.attention:
                    ids = [best.ids for best, *_ in result.candidates]
                    weights = self.attention(job, ids, mean=job.mean_attention)
                    result = replace(result, attention=weights)
                yield equal[at], result
        others = [number for number in range(len(jobs)) if number not in equal]
        if others:
            for at, result in self.torch.search([jobs[number] for number in others]):
                yield others[at], result

    def stream(self, job: SearchJob) -> Generator[list[int], None, list[Output]]:
        """See ``Engine``."""
        fast = self.fast if is_equal_search(job) else None
        return (yield from (fast or self.torch).stream(job))

    def attention(
        self, job: SearchJob, outputs: Sequence[Sequence[int]], *, mean: bool = False
    ) -> "list[Float[Tensor, 'layers heads tgt src']]":
        """See ``Engine``; a mean does not load PyTorch."""
        engine = self.fast if mean and "torch" not in vars(self) else None
        return (engine or self.torch).attention(job, outputs)

    def score(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[float]]:
        """See ``Engine``."""
        return self.torch.score(sources, targets)

    def close(self) -> None:
        """Release the open engines."""
        for engine in (vars(self).get("fast"), vars(self).get("torch")):
            if engine is not None:
                engine.close()


def is_equal_search(job: SearchJob) -> bool:
    """Whether CTranslate2 searches as PyTorch does with these settings."""
    if any(one.required or one.banned for one in job.constraints or ()):
        return False
    return not any(lacking_options(job.options)) and not any(differing_options(job.options))


def load_auto(
    run: RunDirectory, device: str, open_torch: "Callable[[Path], TorchEngine]", workers: int | None
) -> tuple[AutoEngine, Tokenizers, RunConfig]:
    """The engine of one run, with its tokenizers and settings.

    A run is compared once its training has ended, when it first translates. The choice is logged at level INFO.
    """
    config, _ = run.read_config()
    checkpoint = run.usable_checkpoint(run_logger.warning)
    known = find_export(run, "float32", lambda _: None)
    tokenizers = run.read_tokenizers()
    check_tokenizers(config.model, *tokenizers)
    proof_name = PROOFS[split_device(device)[0]]

    def open_fast(torch: "TorchEngine | None") -> "CTranslate2Engine | None":
        reason = "its training has not ended"
        if checkpoint.parent == run.final:  # else each validation exports
            try:
                fast = open_engine(run, device, None, workers, wait=False)[0]
                proof = fast.directory / proof_name
                equal = _read_proof(proof)
                if equal is None:
                    sources = _read_sources(run, config, tokenizers[0])
                    equal = _prove(proof, fast, torch or open_torch(checkpoint), config.decode, sources)
                if equal:
                    logger.info("engine: ctranslate2, which translates as torch does: %s", proof)
                    return fast
                fast.close()
                reason = "CTranslate2 translates it otherwise"
            except (GlassformerError, OSError, RuntimeError, ValueError, LookupError, TypeError) as error:
                reason = f"CTranslate2 cannot run it: {error}"
        logger.info("engine: torch for %s: %s", run.path, reason)
        return None

    engine = AutoEngine(config.model, partial(open_torch, checkpoint), open_fast)
    if known is None or _read_proof(known / proof_name) is None:
        _ = engine.torch
    return engine, tokenizers, config


def known_engine(run: RunDirectory, device: str) -> str | None:
    """The engine that was shown to be right for a run; None if nobody has compared them yet."""
    export = find_export(run, "float32", lambda _: None)
    equal = None if export is None else _read_proof(export / PROOFS[split_device(device)[0]])
    return None if equal is None else "ctranslate2" if equal else "torch"


def _read_sources(run: RunDirectory, config: RunConfig, tokenizer: Tokenizer) -> list[list[int]]:
    """The run's validation sources, else sentences of ours, as ids."""
    own = run.text / "valid.jsonl"
    if own.is_file():
        texts = [json.loads(line)[0] for line in islice(read_json_lines(own), _SENTENCES)]
    else:
        texts = [" ".join(parts) for parts in product(_SUBJECTS, _PREDICATES)]
    return [source.ids for source in read_sources(texts, tokenizer, config.model) if not source.is_empty]


def find_fast_device(device: str, precision: str | None) -> str | None:
    """Where CTranslate2 computes in float32 for PyTorch, if anywhere."""
    if precision not in (None, "float32") or not isinstance(device, str) or find_spec("ctranslate2") is None:
        return None
    known = ["cpu"] if device == "cpu" else find_devices()
    if device != "auto":
        return device if device in known else None
    if "cuda" in known:
        return "cuda"
    return None if _torch_has_gpu() else "cpu"


def _torch_has_gpu() -> bool:
    """Whether PyTorch would use a GPU; takes a second where there may be one."""
    if may_have_gpu():
        import torch

        return torch.cuda.is_available()
    return False


def _read_proof(path: Path) -> bool | None:
    """The verdict with the export, if one is of these versions."""
    try:
        proof = read_json_file(path)
        return bool(proof["equal"]) if proof["versions"] == _versions() else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _versions() -> dict[str, str]:
    return {name: version(name) for name in ("glassformer", "ctranslate2", "torch")}


def _prove(
    path: Path, fast: "CTranslate2Engine", torch: "TorchEngine", options: DecodeConfig, sources: list[list[int]]
) -> bool:
    """Translate with both engines, greedily and by beams; keep the verdict."""
    options = replace(DecodeConfig(), length_penalty=options.length_penalty, length_norm=options.length_norm)
    pairs: list[OutputPair] = []
    for beam, half in ((1, sources[::2]), (options.beam, sources[1::2])):
        by_beam = replace(options, beam=beam)
        found, expected = (search_sources(one, half, by_beam) for one in (fast, torch))
        pairs += (best for best, *_ in compare_outputs(found, expected))
    gaps = [pair.gap for pair in pairs if pair.step is None]
    largest = max(gaps, default=0.0)
    equal = len(gaps) == len(pairs) > 0 and largest <= _TOLERANCE
    proof = {"versions": _versions(), "equal": equal, "outputs": len(pairs), "same": len(gaps)}
    with write_durably(path) as file:
        json.dump({**proof, "largest_difference": largest}, file, indent=1)
    return equal
