"""The settings of a server; the command's options are made from these fields."""

from dataclasses import dataclass
from typing import Literal

from glassformer.settings.section import Section, knob


@dataclass(frozen=True, kw_only=True)
class ServeConfig(Section):
    """Where a server listens, what it allows a client, and how requests are joined in batches."""

    host: str = knob("127.0.0.1", "the address to listen at; 0.0.0.0 for every network of this machine")
    port: int = knob(5000, "the port to listen at; 0 takes a free one", high=65_535)
    engine: Literal["auto", "torch", "ctranslate2"] = knob(
        "auto", "the engine; auto: ctranslate2 where it is installed and gives the same outputs as torch"
    )
    threads: int = knob(0, "threads that translate, each a batch at a time; 0: one a core", high=256)
    keys: str = knob("", "a file of keys, one a line, each with its texts per minute if it has its own limit")
    require_key: bool = knob(False, "refuse requests without a key")
    key_contact: str = knob("", "URL where users get a key")
    request_limit: int = knob(0, "texts per minute for an address without a key; 0: no limit")
    char_limit: int = knob(50_000, "characters in one request; 0: no limit")
    batch_limit: int = knob(256, "texts in one request; 0: no limit")
    n_best_limit: int = knob(10, "alternatives or hypotheses for one text", low=1, high=100)
    body_mb: float = knob(16.0, "size of one request in MB, files included", low=0.001)
    queue: int = knob(2000, "sentences that may wait; a request that comes while more wait is refused", low=1)
    time_limit_s: float = knob(60.0, "time limit of a request in seconds; ten times as long for a file", low=0.1)
    drain_s: float = knob(20.0, "seconds that a stopping server waits for running requests")
    patience_ms: float = knob(3.0, "milliseconds that a thread waits for its share of all clients' texts")
    batch_tokens: int = knob(1024, "source tokens of one batch, as estimated by characters", low=1)
    files: bool = knob(True, "translate files")
    explain_minutes: float = knob(15.0, "how long an answer can be explained")
    explain_answers: int = knob(1000, "how many answers can be explained; the oldest go first", low=1)
    metrics_key: str = knob("", "bearer token for /metrics; empty: open to all")
    trusted_proxy: str = knob("", "address of a proxy whose X-Forwarded-For is trusted")
    access_log: bool = knob(False, "write a line for each request: method, path without query, status, milliseconds")
