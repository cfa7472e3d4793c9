"""The routes: each reads a request, asks the service, and writes the answer."""

import asyncio
import csv
import io
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp

from gelgt import __version__
from gelgt.errors import GelgtError
from gelgt.serve.answering import Answered
from gelgt.serve.arrow import MEDIA as ARROW
from gelgt.serve.card import card_html, model_card
from gelgt.serve.document import document
from gelgt.serve.failures import BUG, body_of, headers_of, status_of
from gelgt.serve.guard import Guard
from gelgt.serve.overview import Filter
from gelgt.serve.questions import (
    ExplanationBody,
    LookAlikeBody,
    PredictionBody,
    Question,
    RecommendationBody,
    arrow_question,
    key_of,
    parse,
    question_of,
    time_of,
)
from gelgt.serve.requests import JSON, json_response, plain, read_body, table_response
from gelgt.serve.service import Service

PAGE = Path(__file__).parent / "page"
STATIC = {".js": "text/javascript", ".css": "text/css"}
HTML = "text/html"
Text = Annotated[str, Query(max_length=200)]


def make_app(service: Service) -> ASGIApp:
    """The application of a service."""
    # The documentation pages of FastAPI load scripts from elsewhere; the page at / does not.
    app = FastAPI(title="gelgt", version=__version__, openapi_url=None)
    routes = Routes(service)
    for method, path, route, tag in routes.all:
        app.add_api_route(path, route, methods=[method], tags=[tag], response_model=None)
    for name in ("/", "/static/{name}"):
        route = routes.page if name == "/" else routes.static
        app.add_api_route(name, route, include_in_schema=False, response_model=None)
    app.add_api_route("/openapi.json", routes.openapi, include_in_schema=False)
    routes.document = lambda: document(app, service)
    app.add_exception_handler(GelgtError, _gelgt_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _bad_query)
    app.add_exception_handler(Exception, _bug)
    return Guard(app, service.settings, service.meters)


class Routes:
    """The functions behind the paths."""

    def __init__(self, service: Service) -> None:
        self.service, self.settings = service, service.settings
        self.document: Callable[[], dict[str, Any]] = dict

    @property
    def all(self) -> list[tuple[str, str, Callable[..., Awaitable[Response]], str]]:
        """Method, path, function, and what it is about."""
        return [
            ("POST", "/v1/predictions", self.predictions, "predict"),
            ("POST", "/v1/recommendations", self.recommendations, "predict"),
            ("POST", "/v1/explanations", self.explanations, "explain"),
            ("POST", "/v1/look-alikes", self.look_alikes, "explore"),
            ("GET", "/v1/entities", self.entities, "explore"),
            ("GET", "/v1/overview", self.overview, "explore"),
            ("GET", "/v1/overview.csv", self.overview_csv, "explore"),
            ("GET", "/v1/model", self.model, "model"),
            ("POST", "/v1/refresh", self.refresh, "model"),
            ("GET", "/v1/health/live", self.live, "health"),
            ("GET", "/v1/health/ready", self.ready, "health"),
            ("GET", "/metrics", self.metrics, "health"),
        ]

    # Answers.
    async def predictions(self, request: Request) -> Response:
        """Predict for entities at a time, or for rows of entity and time."""
        served = self.service.served
        if served.recommends:
            raise _other("predicts no values: it recommends rows", "/v1/recommendations")
        media, body = await read_body(request, self.settings, JSON, ARROW)
        if media == ARROW:
            question = arrow_question(served, body, self.settings.rows)
        else:
            asked: PredictionBody = parse(PredictionBody, body)
            if asked.interval is not None:
                served.bounds(asked.interval)  # raises before anything waits
            question = question_of(served, asked, self.settings.rows)
            question = _with(question, interval=asked.interval)
        return _told(request, "predictions", await self._answer(question))

    async def recommendations(self, request: Request) -> Response:
        """Recommend rows to entities at a time."""
        from gelgt.inference import Recommend

        served = self.service.served
        if not served.recommends:
            raise _other("recommends no rows: it predicts values", "/v1/predictions")
        media, body = await read_body(request, self.settings, JSON, ARROW)
        if media == ARROW:
            question = arrow_question(served, body, self.settings.rows)
            question = _with(question, recommend=Recommend())
        else:
            asked: RecommendationBody = parse(RecommendationBody, body)
            question = question_of(served, asked, self.settings.rows)
            allowed = None if asked.allowed is None else [key_of(k) for k in asked.allowed]
            question = _with(question, recommend=Recommend(asked.k, asked.new_only, allowed))
        return _told(request, "recommendations", await self._answer(question))

    async def explanations(self, request: Request) -> Response:
        """Explain one prediction: which rows, columns, paths and ages move it, measured by
        deletion. With `Accept: text/html` the answer is a page."""
        served = self.service.served
        _, body = await read_body(request, self.settings, JSON)
        asked: ExplanationBody = parse(ExplanationBody, body)
        second, notices = time_of(served, asked.at)

        def work() -> Any:
            return served.explain(key_of(asked.entity), second, asked.counterfactual)

        why = await self._within(self.service.later(work))
        if HTML in request.headers.get("accept", ""):
            return Response(_page_of(why), media_type=HTML)
        content = why.to_dict()
        content["notices"] = [*content.get("notices", ()), *notices]
        return json_response({**content, "data": served.data})

    async def look_alikes(self, request: Request) -> Response:
        """The entities whose vectors are nearest to that of one, among those of the overview."""
        served = self.service.served
        _, body = await read_body(request, self.settings, JSON)
        asked: LookAlikeBody = parse(LookAlikeBody, body)
        second, _ = time_of(served, asked.at)

        def work() -> Any:
            return served.overview.look_alikes(key_of(asked.entity), second, asked.k)

        found = await self._within(self.service.later(work))
        return json_response({"look_alikes": found, "data": served.data})

    # Lists.
    async def entities(
        self, search: Text = "", limit: Annotated[int, Query(ge=1, le=100)] = 20
    ) -> Response:
        """Entities by the beginning of their key, or by a text in their row."""
        served = self.service.served
        found = await self._within(self.service.search(lambda: served.entities.find(search, limit)))
        return json_response({"entities": found})

    async def overview(
        self,
        request: Request,
        order: Text | None = None,
        direction: Annotated[str, Query(pattern="^(highest|lowest)$")] = "highest",
        least: float | None = None,
        most: float | None = None,
        limit: Annotated[int, Query(ge=1, le=1000)] = 50,
        where: Annotated[list[Text] | None, Query(max_length=8)] = None,
    ) -> Response:
        """Predictions for all eligible entities now, or for a sample of them: the highest or
        lowest. They are made when they are first asked for; until then `done` counts up."""
        served = self.service.served
        seen = self._overview()
        state = {"done": seen.done, "total": seen.total, "population": seen.population}
        if seen.table is None:
            return json_response({"predictions": None, **state, "data": served.data})
        chosen = Filter(order, direction == "lowest", least, most, _pairs(where))
        table = await asyncio.to_thread(seen.select, chosen)
        return json_response(
            {
                "predictions": table.slice(0, limit).to_pylist(),
                "matching": table.num_rows,
                **state,
                "orders": seen.orders,
                "order": chosen.order or seen.order,
                "filters": await asyncio.to_thread(lambda: seen.filters),
                "data": served.data,
            }
        )

    async def overview_csv(
        self,
        order: Text | None = None,
        direction: Annotated[str, Query(pattern="^(highest|lowest)$")] = "highest",
        least: float | None = None,
        most: float | None = None,
        where: Annotated[list[Text] | None, Query(max_length=8)] = None,
    ) -> Response:
        """The same as a CSV file, all of them."""
        seen = self._overview()
        if seen.table is None:
            raise GelgtError(
                "not_yet",
                f"The predictions are being made: {seen.done:,} of {seen.total:,}.",
                hint="Ask again in a moment.",
            )
        chosen = Filter(order, direction == "lowest", least, most, _pairs(where))
        table = await asyncio.to_thread(seen.select, chosen)
        headers = {"Content-Disposition": 'attachment; filename="predictions.csv"'}
        return Response(_csv(table.to_pylist(), table.column_names), 200, headers, "text/csv")

    # The model and the server.
    async def model(self, request: Request) -> Response:
        """What the model is: its task, scores beside baselines, schema, and how new its data are.
        With `Accept: text/html` the answer is a part of a page."""
        served = self.service.served
        if HTML in request.headers.get("accept", ""):
            return Response(await asyncio.to_thread(card_html, served), media_type=HTML)
        return json_response(await asyncio.to_thread(model_card, served, self.settings))

    async def refresh(self, request: Request) -> Response:
        """Look at the source, and answer from new rows where there are some. The old ones answer
        until then, and go on where it fails. It may take longer than a request may: then the
        status is 202."""
        work = asyncio.ensure_future(asyncio.to_thread(self.service.refresh))
        done, _ = await asyncio.wait([work], timeout=self.settings.time_limit)
        if not done:
            return json_response({"refresh": None, "data": self.service.served.data}, 202)
        result = work.result()
        status = 200 if result.error is None else 502
        content = {"refresh": result.to_dict(), "data": self.service.served.data}
        if result.error is not None:
            error = GelgtError(
                result.error.code,
                "The source cannot be read; the old rows go on answering.",
                hint="The log of the server says why.",
            )
            content |= body_of(error)
        return json_response(content, status)

    async def live(self) -> Response:
        """Whether the process runs."""
        return json_response({"status": "live"})

    async def ready(self) -> Response:
        """Whether questions are answered, and how the last look at the source went."""
        last = self.service.last_refresh
        refresh = None if last is None else last.to_dict()
        return json_response(
            {"status": "ready", "data": self.service.served.data, "refresh": refresh}
        )

    async def metrics(self) -> Response:
        """Counts, times and ages, as Prometheus reads them."""
        return Response(self.service.meters.text(), media_type="text/plain; version=0.0.4")

    async def openapi(self) -> Response:
        return json_response(await asyncio.to_thread(self.document))

    async def page(self) -> Response:
        return Response((PAGE / "index.html").read_bytes(), media_type=HTML)

    async def static(self, name: str) -> Response:
        found = next((path for path in PAGE.iterdir() if path.name == name), None)
        if found is None or found.suffix not in STATIC:
            raise HTTPException(404)
        if name == "page.css":
            from gelgt.serve.style import style

            return Response(style(), media_type=STATIC[".css"])
        return Response(found.read_bytes(), media_type=STATIC[found.suffix])

    # Waiting.
    async def _answer(self, question: Question) -> Answered:
        answered: Answered = await self._within(self.service.predictions.ask(question))
        return answered

    async def _within(self, future: "asyncio.Future[Any]") -> Any:
        try:
            return await asyncio.wait_for(future, self.settings.time_limit)
        except TimeoutError:
            raise GelgtError(
                "too_slow",
                f"There was no answer within {self.settings.time_limit:g} s.",
                hint="Ask for fewer entities, or later.",
            ) from None

    def _overview(self) -> Any:
        served = self.service.served
        if served.recommends:
            raise _other("recommends rows, which have no highest and lowest", "/v1/recommendations")
        served.overview.start()
        return served.overview


def _with(question: Question, **changes: Any) -> Question:
    from dataclasses import replace

    return replace(question, **changes)


def _other(what: str, path: str) -> GelgtError:
    return GelgtError("wrong_task", f"The model {what}.", hint=f"Ask {path}.")


def _told(request: Request, name: str, answered: Answered) -> Response:
    more = {"notices": list(answered.notices), "data": answered.served.data}
    return table_response(request, name, answered.table, more)


def _page_of(why: Any) -> str:
    from gelgt.explain.explanation import Explanation

    if isinstance(why, Explanation):
        from gelgt.explain.page import page

        return page(why)
    from gelgt.explain.items_page import items_page

    return items_page(why)


def _pairs(where: list[str] | None) -> tuple[tuple[str, str], ...]:
    pairs = [text.partition("=") for text in where or ()]
    bad = next((name for name, sign, _ in pairs if not sign), None)
    if bad is not None:
        raise GelgtError(
            "bad_request", f"'{bad}' is no condition.", hint="Write where=column=value."
        )
    return tuple((name, value) for name, _, value in pairs)


def _csv(rows: list[dict[str, Any]], names: list[str]) -> bytes:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow([_cell(name) for name in names])
    writer.writerows([_cell(plain(row[name])) for name in names] for row in rows)
    return out.getvalue().encode()


def _cell(value: Any) -> Any:
    """A cell that no spreadsheet takes for a formula."""
    return f"'{value}" if isinstance(value, str) and value[:1] in tuple("=+-@\t\r") else value


async def _gelgt_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, GelgtError)
    response = json_response(body_of(error), status_of(error))
    response.headers.update(headers_of(error))
    if error.code in ("too_large", "too_slow_request"):
        response.headers["connection"] = "close"  # the rest of the body is not read
    return response


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = {404: "not_found", 405: "wrong_method"}.get(error.status_code, "bad_request")
    known = GelgtError(
        code,
        f"{request.method} {request.url.path[:100]} is nothing that is answered.",
        hint="GET /openapi.json lists what is.",
    )
    response = json_response(body_of(known), error.status_code)
    response.headers.update(error.headers or {})
    return response


async def _bug(request: Request, error: Exception) -> Response:
    return json_response(body_of(BUG), status_of(BUG))  # the guard logs it


async def _bad_query(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first.get("loc", ())[1:])
    known = GelgtError(
        "bad_request", f"{where}: {first.get('msg', 'is wrong')}.", hint="See GET /openapi.json."
    )
    return json_response(body_of(known), 400)
