"""docs/serving.md says nothing that does not work: its requests are sent."""

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "serving.md"
REQUESTS = re.findall(r"^curl (.*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("line", REQUESTS)
def test_requests_of_the_page_are_answered(client: Any, line: str) -> None:
    words = shlex.split(line.replace("10000", "KEY").replace("10007", "KEY"))
    path = words[0].removeprefix("localhost:8000")
    example = client.get("/v1/model").json()["example"]
    if "-d" not in words:
        assert client.get(path).status_code == 200
        return
    body = words[words.index("-d") + 1].replace("KEY", str(example["keys"][0]))
    body = re.sub(r"2025-1\d-01", example["at"], body)  # the shop of the tests ends earlier
    headers = {"Content-Type": "application/json"}
    response = client.post(path, content=body.encode(), headers=headers)
    assert response.status_code == 200, response.text


def test_every_route_of_the_page_is_one(client_of: Callable[..., Any]) -> None:
    text = PAGE.read_text(encoding="utf-8")
    named = set(re.findall(r"`(?:GET |POST )?(/v1/[a-z/.-]+|/metrics)", text))
    known = set(client_of("binary").get("/openapi.json").json()["paths"])
    assert known <= named | {"/v1/predictions"}
    assert {path for path in named if not path.endswith("/")} <= known
