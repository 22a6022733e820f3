"""Counters of one server, for Prometheus, in a registry of its own."""

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, ProcessCollector

from glassformer.version import __version__

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Metrics:
    """What /metrics shows."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = self._make(Counter, "requests", "Requests", labelnames=("route", "status"))
        self.in_flight = self._make(Gauge, "requests_in_flight", "Requests that are handled now")
        self.seconds = self._make(
            Histogram, "request_seconds", "Time of a request", labelnames=("route",), buckets=_SECONDS
        )
        self.characters = self._make(Counter, "characters", "Characters to translate")
        self.waiting = self._make(Gauge, "waiting_texts", "Texts that wait")
        self.queue_seconds = self._make(Histogram, "queue_seconds", "Time that a text waits", buckets=_SECONDS)
        self.batch_texts = self._make(Histogram, "batch_texts", "Texts of a batch", buckets=(1, 2, 4, 8, 16, 32))
        self.batch_seconds = self._make(Histogram, "batch_seconds", "Time of a batch", buckets=_SECONDS)
        self._make(Info, "build", "Version").info({"version": __version__})
        ProcessCollector(registry=self.registry)

    def _make(self, kind: Any, name: str, about: str, **options: Any) -> Any:
        return kind(f"glassformer_{name}", about, registry=self.registry, **options)
