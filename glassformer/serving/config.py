"""The settings of a server; the command's options are made from these fields."""

from dataclasses import dataclass
from typing import Literal

from glassformer.settings.section import Section, knob


@dataclass(frozen=True, kw_only=True)
class ServeConfig(Section):
    """Where a server listens, and what it allows a client."""

    host: str = knob("127.0.0.1", "the address to listen at; 0.0.0.0 for every network of this machine")
    port: int = knob(5000, "the port to listen at; 0 takes a free one", high=65_535)
    engine: Literal["auto", "torch", "ctranslate2"] = knob(
        "auto", "the engine; auto: ctranslate2 where it is installed and gives the same outputs as torch"
    )
    threads: int = knob(0, "threads that translate, each a batch at a time; 0: one a core", high=256)
    keys: str = knob("", "a file of keys, one a line, each with its texts per minute if it has its own limit")
    require_key: bool = knob(False, "refuse requests without a key")
    request_limit: int = knob(0, "texts per minute for an address without a key; 0: no limit")
    char_limit: int = knob(50_000, "characters in one request; 0: no limit")
    batch_limit: int = knob(256, "texts in one request; 0: no limit")
    n_best_limit: int = knob(10, "alternatives or hypotheses for one text", low=1, high=100)
    body_mb: float = knob(16.0, "size of one request in MB, files included", low=0.001)
    queue: int = knob(2000, "texts that may wait; a request that comes while more wait is refused", low=1)
    time_limit_s: float = knob(60.0, "time limit of a request in seconds; ten times as long for a file", low=0.1)
    drain_s: float = knob(20.0, "seconds that a stopping server waits for running requests")
    files: bool = knob(True, "translate files")
    trusted_proxy: str = knob("", "address of a proxy whose X-Forwarded-For is trusted")
