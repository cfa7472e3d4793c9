"""Tiny runs on a small shop, and services over them that answer without a socket."""

import asyncio
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest

import gelgt
from gelgt import Database
from gelgt.demo import shop
from gelgt.presets import RunConfig
from gelgt.runs.folder import Run
from gelgt.serve import ServeSettings, Service, make_app
from gelgt.serve.service import Origin
from gelgt.training import Options, train_run

TINY: Mapping[str, Any] = {
    "train.epochs": 1,
    "train.steps_per_epoch": 4,
    "train.ensemble": 1,
    "train.windows": 1,
    "train.batch_size": 32,
    "model.width": 16,
    "model.heads": 2,
    "model.keep": 12,
    "model.row_width": 8,
    "model.history_columns": 20,
    "model.column_members": 2,
    "sampling.budget": 24,
}
SENTENCES = {
    "binary": "PREDICT COUNT(orders.*, 0, 10, days) > 0 FOR EACH customers.id",
    "regression": "PREDICT SUM(order_items.unit_price, 0, 10, days) FOR EACH customers.id",
    "recommendation": "PREDICT LIST_DISTINCT(order_items.product_sku, 0, 20, days) "
    "FOR EACH customers.id",
}


@dataclass(frozen=True)
class Client:
    """Asks a service as HTTP clients do, in an event loop of its own."""

    service: Service
    headers: Mapping[str, str]

    def ask(self, *requests: tuple[str, str, dict[str, Any]]) -> list[httpx.Response]:
        """The responses to requests that are sent at the same time."""

        async def go() -> list[httpx.Response]:
            transport = httpx.ASGITransport(make_app(self.service), raise_app_exceptions=False)
            async with httpx.AsyncClient(
                transport=transport, base_url="http://localhost", headers=dict(self.headers)
            ) as client:
                sent = [client.request(method, path, **more) for method, path, more in requests]
                return list(await asyncio.gather(*sent))

        return asyncio.run(go())

    def get(self, path: str, **more: Any) -> httpx.Response:
        return self.ask(("GET", path, more))[0]

    def post(self, path: str, json: Any = None, **more: Any) -> httpx.Response:
        return self.ask(("POST", path, more if json is None else {"json": json, **more}))[0]


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GELGT_CACHE", str(tmp_path_factory.mktemp("serve-cache")))
        yield


@pytest.fixture(autouse=True)
def _own_cache(own_cache: None) -> None:
    """One cache for all of these tests: their services share runs and imports."""


@pytest.fixture(scope="session")
def shop_file(own_cache: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shop(tmp_path_factory.mktemp("shop") / "shop.db", customers=120, days=300, seed=11).path


@pytest.fixture(scope="session")
def db(shop_file: Path) -> Database:
    return gelgt.open(shop_file)


@pytest.fixture(scope="session")
def run_of(db: Database, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Run]:
    """The run of a sentence, trained once."""

    @cache
    def make(name: str) -> Run:
        task = db.task(SENTENCES[name])
        config = RunConfig.of("cpu", task.task_type, TINY)
        out = tmp_path_factory.mktemp("served") / name
        return train_run(db, task, out, config, Options(baseline_hops=(), device="cpu"))

    return make


@pytest.fixture(scope="session")
def client_of(run_of: Callable[[str], Run], shop_file: Path) -> Iterator[Callable[..., Client]]:
    """`client_of("binary", token="…")`: a client of a service over a run; those without settings
    share one."""
    services: list[Service] = []

    def make(name: str, *, source: Any = None, **settings: Any) -> Client:
        origin = Origin(str(shop_file) if source is None else source)
        service = Service(run_of(name), origin, ServeSettings(**settings), "cpu")
        services.append(service)
        token = settings.get("token")
        return Client(service, {} if token is None else {"Authorization": f"Bearer {token}"})

    kept = cache(lambda name: make(name))
    yield lambda name, **more: make(name, **more) if more else kept(name)
    for service in services:
        service.close()


@pytest.fixture(scope="session")
def client(client_of: Callable[..., Client]) -> Client:
    return client_of("binary")


@pytest.fixture
def growing(shop_file: Path, tmp_path: Path) -> Path:
    """A copy of the shop that a test may change."""
    return Path(shutil.copy(shop_file, tmp_path / "growing.db"))
