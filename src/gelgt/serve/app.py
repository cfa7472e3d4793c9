"""`make_app`: the routes of a service as an ASGI application."""

import asyncio
from collections.abc import Awaitable, Callable

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp

from gelgt import __version__
from gelgt.errors import GelgtError
from gelgt.serve.document import document
from gelgt.serve.failures import BUG, body_of, headers_of, status_of
from gelgt.serve.guard import Guard
from gelgt.serve.requests import json_response
from gelgt.serve.routes import page
from gelgt.serve.routes.explore import ExploreRoutes
from gelgt.serve.routes.model import ModelRoutes
from gelgt.serve.routes.predict import PredictRoutes
from gelgt.serve.service import Service


def make_app(service: Service) -> ASGIApp:
    """The application of a service."""
    # The documentation pages of FastAPI load scripts from elsewhere; the page at / does not.
    app = FastAPI(title="gelgt", version=__version__, openapi_url=None)
    for routes in (PredictRoutes(service), ExploreRoutes(service), ModelRoutes(service)):
        for method, path, route in routes.all:
            app.add_api_route(path, route, methods=[method], tags=[routes.tag], response_model=None)

    async def openapi() -> Response:
        return json_response(await asyncio.to_thread(document, app, service))

    files: dict[str, Callable[..., Awaitable[Response]]] = {
        "/": page.page,
        "/static/{name}": page.static,
        "/openapi.json": openapi,
    }
    for path, file in files.items():
        app.add_api_route(path, file, include_in_schema=False, response_model=None)
    app.add_exception_handler(GelgtError, _gelgt_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _bad_query)
    app.add_exception_handler(Exception, _bug)
    return Guard(app, service.settings, service.meters)


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
