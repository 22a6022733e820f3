"""The engine that runs a model with CTranslate2: the same search, without PyTorch.

Searches are those of ``beam_search``, up to rounding in float32, except that

- <pad> and <s> have no part in the softmax; ours leaves them some 1e-5;
- filters and shortlists renormalise; what was found with filters is scored anew;
- samples use CTranslate2's random numbers, by seed and batch.

What CTranslate2 lacks, or computes differently, is refused by name.
"""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import Field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.decoding.engines.engine import SearchResult, check_workers
from glassformer.decoding.search.job import Constraints, SearchJob, check_wanted
from glassformer.decoding.search.outputs import Output, rank_outputs
from glassformer.errors import ConfigError, InputError
from glassformer.interop.ctranslate2 import NEEDED
from glassformer.settings import DecodeConfig, ModelConfig, flag
from glassformer.text.corpus.workers import available_cores
from glassformer.text.tokenizer.tokenizer import Tokenizers

NAME = "ctranslate2"
# The precisions by CTranslate2's names.
COMPUTE_TYPES = {"float32": "float32", "bf16": "bfloat16", "float16": "float16", "int8": "int8"}
ONLY_HERE = ("float16", "int8")  # precisions that PyTorch lacks
_Found = list[tuple[list[int], float]]
"""Ids and log-probability of each output of a source."""
_Call = tuple[list[int], int, list[Any]]
"""Rows translated together, their limit, and their results, perhaps pending."""
_MAX_EFFICIENT = 32  # on a CPU
_MAX_TOLD = 64  # tokens up to which a search gives its attention for free
_NO_PENALTY = 1e-30  # divides by 1, but does not end the search early


def lacking_options(options: DecodeConfig) -> Iterator[tuple[str, Any, str]]:
    """Options that CTranslate2 lacks: name, only value, alternative."""
    for knob in _changed_fields(options):
        known = knob.metadata
        if NAME not in known["equal_in"] and NAME not in known["differs_in"]:
            yield knob.name, knob.default, known["missing_in"].get(NAME, "does not have it")


def differing_options(options: DecodeConfig) -> Iterator[tuple[str, str]]:
    """Options that CTranslate2 has in its own way, and that way."""
    for knob in _changed_fields(options):
        if NAME in knob.metadata["differs_in"]:
            yield knob.name, knob.metadata["differs_in"][NAME]


def _changed_fields(options: DecodeConfig) -> Iterator[Field[Any]]:
    is_beam_search = options.beam > 1 and not options.sample
    for knob in fields(options):
        acts = knob.metadata["acts_in"] != "batching" and (is_beam_search or knob.name != "early_stopping")
        if acts and getattr(options, knob.name) != knob.default:
            yield knob


def check_precision(name: str | None, device: str = "cpu") -> str:
    """The precision or float32; ``ConfigError`` if this device lacks it."""
    try:
        import ctranslate2
    except ImportError as error:
        raise ConfigError(f"engine: found {name_engine(name)}. {NEEDED}, or use {other_engine(name)}.") from error
    kinds = ctranslate2.get_supported_compute_types(*split_device(device))
    here = [known for known, kind in COMPUTE_TYPES.items() if kind in kinds]
    if (name or "float32") not in here:
        raise ConfigError(
            f"precision: found {name!r}, expected one of {', '.join(here)}, which CTranslate2 has on this {device}. "
            "Choose one."
        )
    return name or "float32"


def name_engine(precision: str | None) -> str:
    """Its name in messages: the precision may have chosen it."""
    return f"ctranslate2 for precision {precision}" if precision in ONLY_HERE else "ctranslate2"


def other_engine(precision: str | None) -> str:
    """What to use in its place."""
    return "engine torch in float32" if precision in ONLY_HERE else "engine torch"


def split_device(device: str) -> tuple[str, int]:
    """Name and number: "cuda:1" is number 1 of cuda."""
    name, _, number = device.partition(":")
    return name, int(number or 0)


class CTranslate2Engine:
    """A model in a directory of ``export_ctranslate2``. Implements ``Engine``.

    ``workers``: threads that share the weights; by default one a core or GPU.
    """

    mean_attention = True

    def __init__(
        self, directory: Path, config: ModelConfig, tokenizers: Tokenizers, *,
        device: str = "cpu", precision: str | None = None, workers: int | None = None, shortlist: bool = False,
    ) -> None:  # fmt: skip
        """``shortlist`` uses the directory's map; ``ConfigError``."""
        self.config, self.device, self._precision, self._shortlist = config, device, precision, shortlist
        is_gpu = device != "cpu"
        self.max_efficient_sources = None if is_gpu else _MAX_EFFICIENT
        default = 1 if is_gpu else available_cores()
        self.workers = default if workers is None else check_workers(workers)
        self.directory, self._kind = directory, COMPUTE_TYPES[check_precision(precision, device)]
        self._src, self._tgt = (tokenizer.entries() for tokenizer in tokenizers)
        self._ids = {token: number for number, token in enumerate(self._tgt)}
        self._translator = self._load(self.workers)

    def search(self, jobs: Sequence[SearchJob]) -> Iterator[tuple[int, SearchResult]]:
        """See ``Engine``, in order; errors for what CTranslate2 lacks."""
        check_wanted()
        for job in jobs:
            _check_job(job, self._precision)
        started = [] if any(job.options.sample for job in jobs) else [self._start(job) for job in jobs]
        for number, job in enumerate(jobs):
            candidates = self._finish(job, started[number] if started else self._start(job))
            outputs = [best.ids for best, *_ in candidates]
            attention = self.attention(job, outputs) if job.attention else ()
            yield number, SearchResult(candidates, attention, "ctranslate2")

    def stream(self, job: SearchJob) -> Generator[list[int], None, list[Output]]:
        """See ``Engine``; a beam's ids come at the end."""
        _check_job(job, self._precision)
        if job.options.rows_per_source > 1 or job.options.sample or self._shortlist:
            candidates = self._finish(job, self._start(job))[0]
            yield candidates[0].ids
            return candidates
        ids = []
        asked = self._options(job, [0], job.limits[0])
        names = ("no_repeat_ngram_size", "suppress_sequences", "max_decoding_length", "min_decoding_length")
        for step in self._translator.generate_tokens(
            self._tokens(job.sources[0]), self._prefix(job, 0), max_input_length=0,
            **{name: asked[name] for name in names},
        ):  # fmt: skip
            ids.append(self._ids[step.token])
            yield list(ids)
        return self._rank(job, [(ids, sum(self.score(job.sources, [ids])[0]))])

    def attention(self, job: SearchJob, outputs: Sequence[Sequence[int]], *, mean: bool = False) -> list[Any]:
        """See ``Engine``; the last layer's mean head, as arrays of NumPy, for which nobody needs PyTorch."""
        results = self._translator.translate_batch(
            [self._tokens(source) for source in job.sources], [self._target_tokens(ids) for ids in outputs],
            beam_size=1, max_input_length=0, max_decoding_length=max(map(len, outputs)), return_attention=True,
            return_end_token=True,
        )  # fmt: skip
        return [
            np.array(result.attention[0][: len(ids)], np.float32)[None, None]
            for result, ids in zip(results, outputs, strict=True)
        ]

    def score(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[float]]:
        """See ``Engine``."""
        eos_id, longest = self.config.eos_id, self.config.max_length
        full = {row for row, ids in enumerate(targets) if len(ids) == longest and ids[-1] != eos_id}
        rows = [row for row in range(len(targets)) if row not in full]
        results = self._translator.score_batch(
            [self._tokens(sources[row]) for row in rows],
            [self._target_tokens(targets[row][:-1] if targets[row][-1] == eos_id else targets[row]) for row in rows],
            max_input_length=0,
        )
        found = {row: list(result.log_probs)[: len(targets[row])] for row, result in zip(rows, results, strict=True)}
        found |= {row: self._score_full(sources[row], targets[row]) for row in full}
        return [found[row] for row in range(len(targets))]

    def _score_full(self, source: Sequence[int], target: Sequence[int]) -> list[float]:
        """The same for a target of maximum length."""
        (result,) = self._translator.translate_batch(
            [self._tokens(source)], [self._target_tokens(target[:-1])], beam_size=1, max_input_length=0,
            max_decoding_length=len(target), min_decoding_length=0, return_logits_vocab=True, return_end_token=True,
        )  # fmt: skip
        logits = np.array([np.array(step, np.float32) for step in result.logits[0]], np.float64)
        largest = logits.max(-1)
        log_sums = largest + np.log(np.exp(logits - largest[:, None]).sum(-1))
        return [float(log_prob) for log_prob in logits[np.arange(len(target)), target] - log_sums]

    def close(self) -> None:
        """Free the model."""
        self._translator.unload_model()

    def _load(self, workers: int, files: dict[str, bytes] | None = None) -> Any:
        import ctranslate2

        device, number = split_device(self.device)
        return ctranslate2.Translator(
            str(self.directory), device, device_index=number, compute_type=self._kind, inter_threads=workers,
            intra_threads=1, max_queued_batches=-1, files=files,
        )  # fmt: skip

    def _start(self, job: SearchJob) -> list[_Call]:
        """The job with its longest limit; a call for each list of banned phrases."""
        groups: dict[Any, list[int]] = {}
        for row in range(len(job.sources)):
            groups.setdefault(_constraints_of(job, row).banned, []).append(row)
        return [self._call(job, rows, max(job.limits[row] for row in rows)) for rows in groups.values()]

    def _call(self, job: SearchJob, rows: list[int], limit: int) -> _Call:
        translator = self._sampler(job, rows) if job.options.sample else self._translator
        prefixes = [self._prefix(job, row) for row in rows]
        results = translator.translate_batch(
            [self._tokens(job.sources[row]) for row in rows], prefixes if any(prefixes) else None,
            asynchronous=True, **self._options(job, rows, limit),
        )  # fmt: skip
        return rows, limit, results

    def _sampler(self, job: SearchJob, rows: list[int]) -> Any:
        """A translator of one thread, for these rows' random numbers."""
        import ctranslate2

        ctranslate2.set_random_seed((job.options.seed * 1_000_003 + job.sample_keys[rows[0]] + 1) % 2**32)
        return self._load(1, self._files)

    @cached_property
    def _files(self) -> dict[str, bytes]:
        """In memory: another process may delete the directory."""
        return {path.name: path.read_bytes() for path in self.directory.iterdir()}

    def _options(self, job: SearchJob, rows: list[int], limit: int) -> dict[str, Any]:
        """Ours by CTranslate2's names; our own penalty ranks a beam."""
        options = job.options
        asked = {
            "beam_size": 1 if options.sample else options.beam, "num_hypotheses": options.rows_per_source,
            "length_penalty": options.length_penalty or _NO_PENALTY, "return_scores": True, "return_end_token": True,
            "return_attention": not options.sample and max(len(job.sources[row]) for row in rows) <= _MAX_TOLD,
            "max_input_length": 0, "max_decoding_length": limit, "use_vmap": self._shortlist,
            "min_decoding_length": min(options.min_length, limit), "no_repeat_ngram_size": options.no_repeat_ngram,
            "suppress_sequences": [
                self._target_tokens(phrase) for phrase in _constraints_of(job, rows[0]).banned
            ] or None,
        }  # fmt: skip
        if options.sample:
            asked |= {
                "sampling_topk": min(options.top_k, self.config.tgt_vocab) if options.top_p else 1,
                "sampling_topp": options.top_p or 1.0, "sampling_temperature": options.temperature,
            }  # fmt: skip
        return asked

    def _finish(self, job: SearchJob, calls: list[_Call]) -> list[list[Output]]:
        """Each source's candidates; overlong ones are searched again."""
        found: list[list[Output]] = [[] for _ in job.sources]
        again: dict[tuple[int, Any], list[int]] = {}
        for rows, longest, results in calls:
            # CTranslate2 4.8 confuses first ids of several sources in a beam.
            first = 1 if len(rows) > 1 and job.options.rows_per_source > 1 else 0
            for row, result in zip(rows, results, strict=True):
                output, limit = result.result(), job.limits[row]
                outputs = self._outputs(job, output)
                if limit < longest and any(len(ids) > limit or ids[-1] != self.config.eos_id for ids, _ in outputs):
                    again.setdefault((limit, _constraints_of(job, row).banned), []).append(row)
                    continue
                best, *others = self._rank(job, self._rescore(job, row, outputs))
                if output.attention:
                    weights = output.attention[[ids for ids, _ in outputs].index(best.ids)]
                    best = replace(best, received=tuple(map(sum, zip(*weights[first:], strict=True))))
                found[row] = [best, *others]
        if again:
            later = self._finish(job, [self._call(job, rows, limit) for (limit, _), rows in again.items()])
            found = [mine or other for mine, other in zip(found, later, strict=True)]
        return found

    def _outputs(self, job: SearchJob, result: Any) -> _Found:
        """Each hypothesis's ids and log-probability, without the penalty."""
        alpha = job.options.length_penalty or _NO_PENALTY
        return [
            ([self._ids[token] for token in tokens], score * len(tokens) ** alpha)
            for tokens, score in zip(result.hypotheses, result.scores, strict=True)
        ]

    def _rescore(self, job: SearchJob, row: int, outputs: _Found) -> _Found:
        if _constraints_of(job, row) == Constraints() and not any(differing_options(job.options)):
            return outputs
        found = [ids for ids, _ in outputs]
        scored = self.score([job.sources[row]] * len(found), found)
        return [(ids, sum(log_probs)) for ids, log_probs in zip(found, scored, strict=True)]

    def _rank(self, job: SearchJob, outputs: _Found) -> list[Output]:
        eos_id = self.config.eos_id
        candidates = [Output.from_log_prob(ids, log_prob, job.options, eos_id) for ids, log_prob in outputs]
        return rank_outputs(candidates, job.options.n_best)

    def _prefix(self, job: SearchJob, row: int) -> list[str]:
        return self._target_tokens(_constraints_of(job, row).prefix)

    def _target_tokens(self, ids: Sequence[int]) -> list[str]:
        return [self._tgt[number] for number in ids]

    def _tokens(self, source: Sequence[int]) -> list[str]:
        return [self._src[number] for number in source]


def _constraints_of(job: SearchJob, row: int) -> Constraints:
    return Constraints() if job.constraints is None else job.constraints[row]


def _check_job(job: SearchJob, precision: str | None) -> None:
    """``ConfigError`` for lacking options, ``InputError`` for required phrases."""
    engine, other = name_engine(precision), other_engine(precision)
    for name, neutral, reason in lacking_options(job.options):
        advice = f"Give {flag(name)} {neutral}" if name == "early_stopping" else "Leave it"
        raise ConfigError(
            f"decode.{name}: found {getattr(job.options, name)!r} with engine {engine}, which {reason}; expected "
            f"{neutral!r}. {advice}, or use {other}."
        )
    if any(one.required for one in job.constraints or ()):
        raise InputError(
            f"must: found phrases that must occur with engine {engine}, which cannot require any; expected none. "
            f"Use {other}."
        )
