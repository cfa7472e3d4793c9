"""What all routes share: the service, and answers within the time of a request."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import Query
from starlette.responses import Response

from gelgt.errors import GelgtError
from gelgt.serve.service import Service

HTML = "text/html"
Text = Annotated[str, Query(max_length=200)]
Route = tuple[str, str, Callable[..., Awaitable[Response]]]  # method, path, function


class Routes:
    """Functions behind paths, over a service."""

    tag = ""  # what they are about, in the OpenAPI document

    def __init__(self, service: Service) -> None:
        self.service, self.settings = service, service.settings

    @property
    def all(self) -> list[Route]:
        raise NotImplementedError

    async def within(self, future: "asyncio.Future[Any]") -> Any:
        try:
            return await asyncio.wait_for(future, self.settings.time_limit)
        except TimeoutError:
            raise GelgtError(
                "too_slow",
                f"There was no answer within {self.settings.time_limit:g} s.",
                hint="Ask for fewer entities, or later.",
            ) from None


def other_task(what: str, path: str) -> GelgtError:
    """The run is of another kind."""
    return GelgtError("wrong_task", f"The model {what}.", hint=f"Ask {path}.")
