"""Entities, lists and likeness: what a person looks around with."""

import asyncio
import csv
import io
from typing import Annotated, Any

from fastapi import Query, Request
from starlette.responses import Response

from gelgt.errors import GelgtError
from gelgt.serve.overview import Filter, Overview
from gelgt.serve.questions import LookAlikeBody, key_of, parse, time_of
from gelgt.serve.requests import JSON, json_response, plain, read_body
from gelgt.serve.routes.base import Route, Routes, Text, other_task

Direction = Annotated[str, Query(pattern="^(highest|lowest)$")]
Where = Annotated[list[Text] | None, Query(max_length=8)]


class ExploreRoutes(Routes):
    """What a person looks at."""

    tag = "explore"

    @property
    def all(self) -> list[Route]:
        return [
            ("POST", "/v1/look-alikes", self.look_alikes),
            ("GET", "/v1/entities", self.entities),
            ("GET", "/v1/overview", self.overview),
            ("GET", "/v1/overview.csv", self.overview_csv),
        ]

    async def look_alikes(self, request: Request) -> Response:
        """The entities whose vectors are nearest to that of one, among those of the overview."""
        served = self.service.served
        _, body = await read_body(request, self.settings, JSON)
        asked: LookAlikeBody = parse(LookAlikeBody, body)
        second, _ = time_of(served, asked.at)

        def work() -> Any:
            return served.overview.look_alikes(key_of(asked.entity), second, asked.k)

        found = await self.within(self.service.later(work))
        return json_response({"look_alikes": found, "data": served.data})

    async def entities(
        self, search: Text = "", limit: Annotated[int, Query(ge=1, le=100)] = 20
    ) -> Response:
        """Entities by the beginning of their key, or by a text in their row."""
        served = self.service.served
        found = await self.within(self.service.search(lambda: served.entities.find(search, limit)))
        return json_response({"entities": found})

    async def overview(
        self,
        request: Request,
        order: Text | None = None,
        direction: Direction = "highest",
        least: float | None = None,
        most: float | None = None,
        limit: Annotated[int, Query(ge=1, le=1000)] = 50,
        where: Where = None,
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
        direction: Direction = "highest",
        least: float | None = None,
        most: float | None = None,
        where: Where = None,
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

    def _overview(self) -> Overview:
        served = self.service.served
        if served.recommends:
            raise other_task(
                "recommends rows, which have no highest and lowest", "/v1/recommendations"
            )
        served.overview.start()
        return served.overview


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
