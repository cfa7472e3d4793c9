"""What Prometheus reads at /metrics."""

import time
from typing import TYPE_CHECKING

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.process_collector import ProcessCollector

if TYPE_CHECKING:
    from gelgt.serve.service import Service

# a second series for every count, which nobody reads
disable_created_metrics()  # type: ignore[no-untyped-call]
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
SEEDS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 1024, 10_000)


class Meters:
    """Counts, times and ages of one server, in a registry of its own."""

    def __init__(self, service: "Service") -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._requests = Counter(
            "gelgt_requests", "Requests", ["route", "status"], registry=self.registry
        )
        self._seconds = Histogram(
            "gelgt_request_seconds",
            "Time to answer a request",
            ["route"],
            buckets=SECONDS,
            registry=self.registry,
        )
        self._seeds = Histogram(
            "gelgt_batch_seeds",
            "Seeds that were predicted together",
            buckets=SEEDS,
            registry=self.registry,
        )
        self._batch_seconds = Histogram(
            "gelgt_batch_seconds",
            "Time to predict them",
            buckets=SECONDS,
            registry=self.registry,
        )
        self._refreshes = Counter(
            "gelgt_refreshes", "Looks at the source", ["result"], registry=self.registry
        )
        for result in ("ok", "failed"):
            self._refreshes.labels(result)
        self._failing = self._gauge("gelgt_refresh_failing", "1 while the last refresh failed")
        waiting = self._gauge("gelgt_queue_requests", "Requests that wait for a batch")
        waiting.set_function(lambda: service.predictions.waiting)
        number = self._gauge("gelgt_data_number", "Counts the states of the data, from 1")
        number.set_function(lambda: service.served.number)
        loaded = self._gauge("gelgt_data_loaded_timestamp_seconds", "When the data were loaded")
        loaded.set_function(lambda: service.served.since)
        age = self._gauge("gelgt_data_age_seconds", "Age of the newest row of the data")
        age.set_function(lambda: time.time() - (service.served.newest_second or float("nan")))

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(name, text, registry=self.registry)

    def request(self, route: str, status: int, seconds: float) -> None:
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def batch(self, seeds: int, seconds: float) -> None:
        self._seeds.observe(seeds)
        self._batch_seconds.observe(seconds)

    def refreshed(self, is_ok: bool) -> None:
        self._refreshes.labels("ok" if is_ok else "failed").inc()
        self._failing.set(0 if is_ok else 1)

    def text(self) -> bytes:
        return generate_latest(self.registry)
