"""Tiny runs on a small shop, and services over them that answer without a socket."""

import asyncio
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pandas as pd
import pytest
import uvicorn

import gelgt
from gelgt import Database
from gelgt.demo import shop
from gelgt.presets import RunConfig
from gelgt.runs.folder import Run
from gelgt.serve import ServeSettings, Service, make_app
from gelgt.serve.server import bind
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


def add_orders(path: Path, days: float = 1.0) -> pd.Timestamp:
    """A new order of one item for every customer, so long after the newest one; when they
    happened."""
    with sqlite3.connect(path) as connection:
        newest = pd.Timestamp(connection.execute("SELECT MAX(placed_at) FROM orders").fetchone()[0])
        when = newest + pd.Timedelta(days=days)
        customers = [row[0] for row in connection.execute("SELECT id FROM customers")]
        times = [str(when)] * len(customers)
        orders = _add_rows(connection, "orders", {"customer_id": customers, "placed_at": times})
        items = {"customer_id": customers, "order_id": orders, "ordered_at": times}
        _add_rows(connection, "order_items", items)
    connection.close()
    return when


def _add_rows(
    connection: sqlite3.Connection, table: str, values: Mapping[str, Sequence[Any]]
) -> list[int]:
    """Copies of a table's first row with new ids, which are returned, and with other values in some
    columns."""
    columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    some = connection.execute(f"SELECT * FROM {table} LIMIT 1").fetchone()
    first = connection.execute(f"SELECT MAX(id) FROM {table}").fetchone()[0] + 1
    ids = list(range(first, first + len(next(iter(values.values())))))
    marks = ", ".join("?" * len(columns))
    for place, number in enumerate(ids):
        row = dict(zip(columns, some)) | {"id": number}
        row |= {name: of[place] for name, of in values.items()}
        connection.execute(
            f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", [*row.values()]
        )
    return ids


@pytest.fixture(name="add_orders")
def _add_orders() -> Callable[..., pd.Timestamp]:
    return add_orders


# The page, in a browser.
@dataclass(frozen=True)
class Site:
    """A service that listens on a port of its own, in a thread of this process."""

    service: Service
    server: uvicorn.Server
    thread: threading.Thread
    url: str

    def get(self, path: str) -> Any:
        """The JSON that a path answers with."""
        return httpx.get(self.url + path, timeout=60).raise_for_status().json()

    def post(self, path: str, body: Any) -> Any:
        return httpx.post(self.url + path, json=body, timeout=60).raise_for_status().json()

    def stop(self) -> None:
        """Ends the server and closes its service."""
        self.server.should_exit = True
        self.thread.join()


def listen(service: Service) -> Site:
    bound = bind(ServeSettings(port=0))
    config = uvicorn.Config(make_app(service), log_config=None, lifespan="on", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    return Site(service, server, thread, f"http://127.0.0.1:{bound.getsockname()[1]}")


@pytest.fixture(scope="module")
def site_of(client_of: Callable[..., Client]) -> Iterator[Callable[..., Site]]:
    """`site_of("binary")`: a server over a run; those without settings share one."""
    sites: list[Site] = []

    def make(name: str, **settings: Any) -> Site:
        # A service of its own, since the end of a server closes it.
        sites.append(listen(client_of(name, **{"queue": 63, **settings}).service))
        return sites[-1]

    kept = cache(lambda name: make(name))
    yield lambda name, **more: make(name, **more) if more else kept(name)
    for site in sites:
        site.stop()


class Visits:
    """Opens pages, and remembers what they asked for and complained about."""

    def __init__(self, browser: Any) -> None:
        self.browser, self.contexts = browser, []
        self.requests: list[str] = []
        self.complaints: list[str] = []

    def __call__(
        self, site: Site, where: str = "", *, width: int = 1280, scheme: str = "light"
    ) -> Any:
        context = self.browser.new_context(
            viewport={"width": width, "height": 800}, color_scheme=scheme
        )
        self.contexts.append(context)
        page = context.new_page()
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("console", lambda message: self._heard(message.type, message.text))
        page.on("pageerror", lambda error: self._heard("error", str(error)))
        page.goto(f"{site.url}/{where}")
        return page

    def _heard(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.complaints.append(text)

    def leave(self) -> None:
        for context in self.contexts:
            context.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = shutil.which("chromium")
    api.expect.set_options(timeout=30_000)
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def visits(browser: Any) -> Iterator[Visits]:
    """Whoever opens pages with it may have no complaint of the browser left, but for answers that
    a test expects to be errors, and no request to elsewhere."""
    opened = Visits(browser)
    yield opened
    opened.leave()
    # The browser tells of each answer that is an error; whether it was meant, the test says.
    assert [t for t in opened.complaints if not t.startswith("Failed to load resource")] == []
    elsewhere = [
        url
        for url in opened.requests
        if not url.startswith(("http://127.0.0.1:", "data:", "blob:"))
    ]
    assert opened.requests
    assert elsewhere == []
