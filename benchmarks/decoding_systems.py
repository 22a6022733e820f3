"""The systems that ``decoding.py`` compares, each in processes of its own, driven over pipes.

``System(ids, search)`` is all that a system has to offer. A process is told on its standard input what to load, says
"ready", and answers each request with the outputs and with when it began and ended; so no two systems share threads,
and a request that goes to two processes at once is timed from the first beginning to the last end.
"""

import json
import os
import sys
import time
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from decoding_models import MARIAN, IdTokenizer, banned_of, model_of
from machine import peak_mb
from marian_process import as_words
from processes import Answerer

NEEDS = {
    "hf": "transformers", "ct2": "ctranslate2", "engine": "ctranslate2", "glassformer": "glassformer",
    "marian": "pymarian",
}  # fmt: skip


@dataclass(frozen=True)
class Search:
    """What is asked of a system. One by one means that each sentence waits for the one before.

    ``batch`` is sentences for the peers and, for glassformer, source tokens (``decode.batch_tokens``).
    """

    beam: int
    limit: int
    one_by_one: bool
    batch: int = 1
    clock: str = "wall"


@dataclass(frozen=True)
class Setting:
    """One way to run a system: processes that share nothing, workers that the system manages, threads of each."""

    system: str
    precision: str
    threads: int
    processes: int = 1
    workers: int = 1
    device: str = "cpu"
    shortlist: bool = False

    def __str__(self) -> str:
        managed = f"{self.workers} workers x " if self.workers > 1 else ""
        return f"{self.processes} process(es) x {managed}{self.threads} thread(s)"


class System(Protocol):
    """What translates."""

    def __call__(self, ids: list[list[int]], search: Search) -> list[list[int]]:
        """The best output for each source, both without eos at the output's end, in their order."""
        ...


def is_installed(system: str) -> bool:
    return find_spec(NEEDS[system]) is not None


def glassformer_translator(model: Any, precision: str, workers: int) -> Any:
    """A Translator of ids."""
    from glassformer.decoding import Translator
    from glassformer.settings import DecodeConfig

    tokenizers = (IdTokenizer(model.config.src_vocab), IdTokenizer(model.config.tgt_vocab))
    return Translator(model, *tokenizers, DecodeConfig(), precision=precision, workers=workers)


class Glassformer:
    """``Translator.translate``, whose texts are those of ``IdTokenizer``."""

    def __init__(self, name: str, run: Path | None, directory: Path, setting: Setting) -> None:
        import torch

        torch.set_num_threads(setting.threads)
        model = model_of(name, run).to(setting.device)
        self.eos_id = model.config.eos_id
        self.translator = self._translator(model, directory / f"{name}.ctranslate2", setting)

    def _translator(self, model: Any, converted: Path, setting: Setting) -> Any:
        return glassformer_translator(model, setting.precision, setting.workers)

    def __call__(self, ids: list[list[int]], search: Search) -> list[list[int]]:
        """The best output for each source."""
        from glassformer.settings import DecodeConfig

        options = DecodeConfig(
            beam=search.beam, length_penalty=0.0, max_length_a=0.0, max_length_b=search.limit,
            batch_tokens=search.batch,
        )  # fmt: skip
        texts = [self.translator.src_tokenizer.to_text(row[:-1]) for row in ids]  # the Translator adds eos itself
        if search.one_by_one:
            found = [self.translator.translate([text], options)[0] for text in texts]
        else:
            found = self.translator.translate(texts, options)
        return [[number for number in each.hypotheses[0].ids if number != self.eos_id] for each in found]


class CTranslate2Engine(Glassformer):
    """The same with the engine that runs the weights with CTranslate2."""

    def _translator(self, model: Any, converted: Path, setting: Setting) -> Any:
        from glassformer.decoding import Translator
        from glassformer.decoding.engines import ctranslate2_engine
        from glassformer.settings import DecodeConfig

        tokenizers = (IdTokenizer(model.config.src_vocab), IdTokenizer(model.config.tgt_vocab))
        engine = ctranslate2_engine.CTranslate2Engine(
            converted,
            model.config,
            tokenizers,
            device=setting.device,
            precision=setting.precision,
            workers=setting.workers,
        )
        return Translator.from_engine(engine, tokenizers, DecodeConfig())


class HuggingFace:
    """``generate`` of ``MarianMTModel``, batches of like length, longest first."""

    def __init__(self, name: str, run: Path | None, directory: Path, setting: Setting) -> None:
        import torch
        from transformers_model import transformers_model

        torch.set_num_threads(setting.threads)
        model = transformers_model(model_of(name, run), banned_of(name, run)).to(setting.device)
        self.model = model.bfloat16() if setting.precision == "bf16" else model

    def __call__(self, ids: list[list[int]], search: Search) -> list[list[int]]:
        """The best output for each source."""
        order = sorted(range(len(ids)), key=lambda place: -len(ids[place]))
        size = 1 if search.one_by_one else search.batch
        outputs: list[list[int]] = [[] for _ in ids]
        for start in range(0, len(order), size):
            places = order[start : start + size]
            for place, output in zip(places, self._batch([ids[place] for place in places], search), strict=True):
                outputs[place] = output
        return outputs

    def _batch(self, rows: list[list[int]], search: Search) -> list[list[int]]:
        import torch

        config = self.model.config
        longest = max(map(len, rows))
        src = torch.tensor(
            [[*row, *[config.pad_token_id] * (longest - len(row))] for row in rows],
            device=self.model.device,
        )
        with torch.inference_mode():
            made = self.model.generate(
                input_ids=src, attention_mask=(src != config.pad_token_id).long(), num_beams=search.beam,
                do_sample=False, max_new_tokens=search.limit,
                **({"length_penalty": 0.0, "early_stopping": True} if search.beam > 1 else {}),
            )  # fmt: skip
        control = {config.pad_token_id, config.bos_token_id, config.eos_token_id}
        return [[number for number in row if number not in control] for row in made.tolist()]


class CTranslate2:
    """``ctranslate2.Translator.translate_batch``, whose tokens are ids in decimal."""

    def __init__(self, name: str, run: Path | None, directory: Path, setting: Setting) -> None:
        import ctranslate2

        self.translator = ctranslate2.Translator(
            str(directory / f"{name}.ctranslate2"), compute_type=setting.precision, intra_threads=setting.threads,
            inter_threads=setting.workers, device=setting.device,
        )  # fmt: skip
        self.use_vmap = setting.shortlist

    def __call__(self, ids: list[list[int]], search: Search) -> list[list[int]]:
        """The best output for each source."""
        tokens = [list(map(str, row)) for row in ids]
        chosen = {
            "beam_size": search.beam, "length_penalty": 0.0, "max_decoding_length": search.limit,
            "max_input_length": 0, "max_batch_size": search.batch, "use_vmap": self.use_vmap,
        }  # fmt: skip
        if search.one_by_one:
            found = [self.translator.translate_batch([row], **chosen)[0] for row in tokens]
        else:
            found = self.translator.translate_batch(tokens, **chosen)
        return [[int(token) for token in each.hypotheses[0]] for each in found]


class Marian:
    """``pymarian.Translator``, whose words are ids: ``t17``. It has no limit but a factor of the source's length."""

    def __init__(self, name: str, run: Path | None, directory: Path, setting: Setting) -> None:
        place = directory / f"{name}.marian"
        model = place / MARIAN[setting.precision]
        vocab = next(path for path in place.iterdir() if path.suffix == ".yml" and "decoder" not in path.name)
        self.options = f"--models {model} --vocabs {vocab} {vocab} --cpu-threads {setting.threads} --quiet -w 512"
        if setting.shortlist:  # what all sources may have follows </s>, so best has to be large
            self.options += f" --shortlist {place / MARIAN['shortlist']} 1 1000 0"
        self.translators: dict[Search, Any] = {}

    def __call__(self, ids: list[list[int]], search: Search) -> list[list[int]]:
        """The best output for each source."""
        import pymarian

        if search not in self.translators:
            self.translators[search] = pymarian.Translator(
                f"{self.options} --beam-size {search.beam} --normalize 0 --mini-batch {search.batch} "
                "--maxi-batch 1000 --maxi-batch-sort src"
            )
        translate = self.translators[search].translate
        lines = [line.rstrip("\n") for line in as_words(ids)]
        found = [translate([line])[0] for line in lines] if search.one_by_one else translate(lines)
        return [[int(word[1:]) for word in line.split() if word[1:].isdigit()] for line in found]


SYSTEMS = {
    "glassformer": Glassformer, "engine": CTranslate2Engine, "hf": HuggingFace, "ct2": CTranslate2, "marian": Marian,
}  # fmt: skip


class Runner:
    """The processes of one setting of one system with one model."""

    def __init__(self, name: str, run: Path | None, directory: Path, setting: Setting) -> None:
        told = {"model": name, "run": run and str(run), "directory": str(directory), "setting": asdict(setting)}
        threads = str(setting.threads)
        environment = {
            "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads, "TOKENIZERS_PARALLELISM": "false",
            "HF_HUB_OFFLINE": "1",
        }  # fmt: skip
        self.setting, self.peak_mb = setting, 0.0
        self.processes = [Answerer(__file__, **environment) for _ in range(setting.processes)]
        self.ask([told] * setting.processes)

    def __call__(self, ids: list[list[int]], search: Search) -> tuple[float, list[list[int]]]:
        """Seconds, and the output for each source."""
        answers = self.ask([{"ids": part, "search": asdict(search)} for part in self._dealt(ids)])
        self.peak_mb = sum(answer["peak_mb"] for answer in answers)
        seconds = max(answer["end"] for answer in answers) - min(answer["start"] for answer in answers)
        outputs: list[list[int]] = [[] for _ in ids]
        for places, answer in zip(self._dealt(list(range(len(ids))), ids), answers, strict=True):
            for place, output in zip(places, answer["outputs"], strict=True):
                outputs[place] = output
        return seconds, outputs

    def ask(self, requests: list[Any]) -> list[Any]:
        """One request for each process, all at once; their answers."""
        for process, request in zip(self.processes, requests, strict=True):
            process.send(request)
        return [process.receive() for process in self.processes]

    def close(self) -> None:
        """End the processes, which end with their standard input."""
        for process in self.processes:
            process.close()

    def _dealt(self, things: list[Any], ids: list[list[int]] | None = None) -> list[list[Any]]:
        """A hand for each process, dealt from the longest source to the shortest."""
        if len(self.processes) == 1:
            return [things]
        lengths = [len(row) for row in (things if ids is None else ids)]
        order = sorted(range(len(things)), key=lambda place: -lengths[place])
        hands = len(self.processes)
        return [[things[place] for place in order[hand::hands]] for hand in range(hands)]


def serve() -> None:
    """The other end of ``Runner``. What libraries print goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    told = json.loads(sys.stdin.readline())
    setting = Setting(**told["setting"])
    run = Path(told["run"]) if told["run"] else None
    system = SYSTEMS[setting.system](told["model"], run, Path(told["directory"]), setting)
    print(json.dumps("ready"), file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        search = Search(**request["search"])
        now = time.process_time if search.clock == "processor" else time.monotonic
        start = now()
        outputs = system(request["ids"], search)
        answer = {"start": start, "end": now(), "outputs": outputs, "peak_mb": peak_mb()}
        print(json.dumps(answer), file=answers, flush=True)
    if isinstance(system, Glassformer):
        system.translator.close()


if __name__ == "__main__":
    serve()
