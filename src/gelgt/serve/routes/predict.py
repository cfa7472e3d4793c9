"""Predictions, recommendations, and why."""

import asyncio
from dataclasses import replace
from typing import Any

from fastapi import Request
from starlette.responses import Response

from gelgt.inference import Recommend
from gelgt.serve.answering import Answered
from gelgt.serve.arrow import MEDIA as ARROW
from gelgt.serve.batching import BusyError
from gelgt.serve.questions import (
    ExplanationBody,
    PredictionBody,
    Question,
    RecommendationBody,
    arrow_question,
    key_of,
    parse,
    question_of,
    time_of,
)
from gelgt.serve.requests import JSON, json_response, read_body, table_response
from gelgt.serve.routes.base import HTML, Route, Routes, other_task

REFUSAL = 0.25  # seconds before a request is told that too many wait


class PredictRoutes(Routes):
    """What a run is asked for."""

    tag = "predict"

    @property
    def all(self) -> list[Route]:
        return [
            ("POST", "/v1/predictions", self.predictions),
            ("POST", "/v1/recommendations", self.recommendations),
            ("POST", "/v1/explanations", self.explanations),
        ]

    async def predictions(self, request: Request) -> Response:
        """Predict for entities at a time, or for rows of entity and time."""
        served = self.service.served
        if served.recommends:
            raise other_task("predicts no values: it recommends rows", "/v1/recommendations")
        media, body = await read_body(request, self.settings, JSON, ARROW)
        if media == ARROW:
            question = arrow_question(served, body, self.settings.rows)
        else:
            asked: PredictionBody = parse(PredictionBody, body)
            if asked.interval is not None:
                served.bounds(asked.interval)  # raises before anything waits
            question = question_of(served, asked, self.settings.rows)
            question = replace(question, interval=asked.interval)
        return _told(request, "predictions", await self._answer(question))

    async def recommendations(self, request: Request) -> Response:
        """Recommend rows to entities at a time."""
        served = self.service.served
        if not served.recommends:
            raise other_task("recommends no rows: it predicts values", "/v1/predictions")
        media, body = await read_body(request, self.settings, JSON, ARROW)
        if media == ARROW:
            question = arrow_question(served, body, self.settings.rows)
            question = replace(question, recommend=Recommend())
        else:
            asked: RecommendationBody = parse(RecommendationBody, body)
            question = question_of(served, asked, self.settings.rows)
            allowed = None if asked.allowed is None else [key_of(k) for k in asked.allowed]
            question = replace(question, recommend=Recommend(asked.k, asked.new_only, allowed))
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

        why = await self.within(self.service.later(work))
        if HTML in request.headers.get("accept", ""):
            return Response(_page_of(why), media_type=HTML)
        content = why.to_dict()
        content["notices"] = [*content.get("notices", ()), *notices]
        return json_response({**content, "data": served.data})

    async def _answer(self, question: Question) -> Answered:
        try:
            waiting = self.service.predictions.ask(question)
        except BusyError:
            # Clients that ask again at once would otherwise take the time of those who wait: with
            # four times as many as fit, one answer in ten was left.
            await asyncio.sleep(REFUSAL)
            raise
        answered: Answered = await self.within(waiting)
        return answered


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
