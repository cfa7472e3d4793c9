"""The model, its data, and the health of the server."""

import asyncio

from fastapi import Request
from starlette.responses import Response

from gelgt.errors import GelgtError
from gelgt.serve.card import card_html, model_card
from gelgt.serve.failures import body_of
from gelgt.serve.requests import json_response
from gelgt.serve.routes.base import HTML, Route, Routes


class ModelRoutes(Routes):
    """What the server says of itself."""

    tag = "model"

    @property
    def all(self) -> list[Route]:
        return [
            ("GET", "/v1/model", self.model),
            ("POST", "/v1/refresh", self.refresh),
            ("GET", "/v1/health/live", self.live),
            ("GET", "/v1/health/ready", self.ready),
            ("GET", "/metrics", self.metrics),
        ]

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
