"""Requests that nobody would write, made from the OpenAPI document: never a 5xx."""

from typing import Any

import hypothesis
import pytest

schemathesis = pytest.importorskip(
    "schemathesis", reason="needs schemathesis: pip install -e .[dev]"
)


@pytest.fixture(scope="module")
def api(client: Any) -> Any:
    from gelgt.serve import make_app

    return schemathesis.openapi.from_asgi(
        "/openapi.json", make_app(client.service), headers={"Host": "localhost"}
    )


@pytest.mark.parametrize(
    ("path", "method"),
    [
        ("/v1/predictions", "POST"),
        ("/v1/recommendations", "POST"),
        ("/v1/explanations", "POST"),
        ("/v1/look-alikes", "POST"),
        ("/v1/entities", "GET"),
        ("/v1/overview", "GET"),
        ("/v1/overview.csv", "GET"),
        ("/v1/model", "GET"),
    ],
)
def test_no_request_makes_the_server_fail(api: Any, path: str, method: str) -> None:
    statuses = set()

    @hypothesis.given(case=api[path][method].as_strategy())
    @hypothesis.settings(
        max_examples=40,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
    )
    def ask(case: Any) -> None:
        response = case.call(headers={"Host": "localhost"})
        statuses.add(response.status_code)
        assert response.status_code < 500, response.text

    ask()
    assert statuses  # 40 requests were made
