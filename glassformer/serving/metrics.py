"""What /metrics tells, in the text format of Prometheus: requests, waiting texts, batches, workers."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

CONTENT_TYPE = CONTENT_TYPE_LATEST
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Metrics:
    """Counters of one server, in a registry of its own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        labels = ("route", "status")
        self.requests = Counter("glassformer_requests", "Requests", labels, registry=self._registry)
        self.seconds = Histogram(
            "glassformer_request_seconds", "Time of a request", ("route",), buckets=_SECONDS, registry=self._registry
        )
        self.characters = Counter("glassformer_characters", "Characters to translate", registry=self._registry)
        self.batch_texts = Histogram(
            "glassformer_batch_texts", "Texts of a batch", buckets=(1, 2, 4, 8, 16, 32), registry=self._registry
        )
        self.batch_seconds = Histogram(
            "glassformer_batch_seconds", "Time of a batch", buckets=_SECONDS, registry=self._registry
        )
        self.worker_restarts = Counter("glassformer_worker_restarts", "Workers replaced", registry=self._registry)

    def watch_waiting(self, waiting: Callable[[], float]) -> None:
        """Tell the number of waiting texts, too."""
        Gauge("glassformer_waiting_texts", "Texts that wait", registry=self._registry).set_function(waiting)

    def text(self) -> bytes:
        """All of it now."""
        return generate_latest(self._registry)
