"""Who may ask: tokens, hosts, and what browsers are told."""

from collections.abc import Callable
from typing import Any

Clients = Callable[..., Any]


def code(response: Any) -> str:
    return str(response.json()["error"]["code"])


def test_a_token_is_asked_for(client_of: Clients) -> None:
    client = client_of("binary", token="a-secret-token", host="0.0.0.0")
    assert client.get("/v1/model").status_code == 200
    wrong = [
        {},
        {"Authorization": "Bearer a-secret-toke"},
        {"Authorization": "Bearer a-secret-token2"},
        {"Authorization": "Basic a-secret-token"},
        {"Authorization": "a-secret-token"},
        {"Authorization": "Bearer "},
        {"Authorization": "Bearer \u00e4\u00f6".encode("latin-1")},
    ]
    object.__setattr__(client, "headers", {})
    for headers in wrong:
        for path in ("/v1/model", "/metrics", "/openapi.json", "/v1/overview"):
            response = client.get(path, headers=headers)
            assert (response.status_code, code(response)) == (401, "unauthorized")
            assert response.headers["www-authenticate"] == "Bearer"
            assert "a-secret-token" not in response.text
        asked = client.post("/v1/predictions", {"entities": [10_000]}, headers=headers)
        assert asked.status_code == 401
    for path in ("/", "/static/page.js", "/v1/health/live", "/v1/health/ready"):
        assert client.get(path).status_code == 200
    assert client.get("/v1/model", headers={"Host": "anything.example"}).status_code == 401


def test_without_a_token_only_this_machine_is_answered(client: Any) -> None:
    for host in ("localhost:80", "127.0.0.1", "[::1]:9", "LOCALHOST"):
        assert client.get("/v1/model", headers={"Host": host}).status_code == 200
    for host in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example", ""):
        response = client.get("/v1/model", headers={"Host": host})
        assert (response.status_code, code(response)) == (403, "wrong_host")


def test_responses_tell_browsers_to_load_nothing_from_elsewhere(client: Any) -> None:
    headers = client.get("/").headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert "server" not in headers
