"""What can be set of a server; the options of the command are made from these fields."""

from dataclasses import dataclass
from typing import Literal

from glassformer.settings.section import Section, knob


@dataclass(frozen=True, kw_only=True)
class ServeConfig(Section):
    """Where a server listens, what it allows a client, and how requests are joined in batches."""

    host: str = knob("127.0.0.1", "the address to listen at; 0.0.0.0 for every network of this machine")
    port: int = knob(5000, "the port to listen at; 0 takes a free one", high=65_535)
    engine: Literal["auto", "torch", "ctranslate2"] = knob(
        "auto", "what computes: auto takes ctranslate2 where it is installed and gives what torch gives"
    )
    workers: int = knob(0, "worker processes, each with all models; 0: one a core", high=256)
    keys: str = knob("", "a file of keys: on each line a key and, if wanted, its requests a minute")
    require_key: bool = knob(False, "refuse requests without a key")
    key_contact: str = knob("", "where a person gets a key, an address; told to who has none")
    request_limit: int = knob(0, "texts a minute for an address without a key; 0: no limit")
    ban_after: int = knob(0, "how often in an hour an address may pass its limit before it is refused; 0: always")
    char_limit: int = knob(50_000, "characters in one request; 0: no limit")
    batch_limit: int = knob(256, "texts in one request; 0: no limit")
    n_best_limit: int = knob(10, "alternatives or hypotheses for one text", low=1, high=100)
    body_mb: float = knob(16.0, "size of one request in MB, files included", low=0.001)
    queue: int = knob(2000, "sentences that may wait; a request that comes while more wait is refused", low=1)
    time_limit_s: float = knob(60.0, "seconds for one request; a file has ten times as many", low=0.1)
    door_s: float = knob(
        20.0, "seconds for a client to send its request, and to take each piece of the answer", low=0.1
    )
    drain_s: float = knob(20.0, "seconds that a stop waits for what runs")
    patience_ms: float = knob(
        3.0, "how long a worker waits for more texts, while there are fewer than its share of clients"
    )
    batch_tokens: int = knob(1024, "source tokens of one batch, as estimated by characters", low=1)
    files: bool = knob(True, "translate files")
    suggestions: str = knob("", "a directory that takes suggested translations; without it they are refused")
    explain_minutes: float = knob(15.0, "how long an answer can be explained")
    explain_answers: int = knob(1000, "how many answers can be explained; the oldest is forgotten first")
    metrics_key: str = knob("", "the bearer token that /metrics asks for; empty: none")
    trusted_proxy: str = knob("", "the address of a proxy whose X-Forwarded-For is believed")
    access_log: bool = knob(False, "write a line for each request: method, path without query, status, milliseconds")
