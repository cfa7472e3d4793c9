"""The OpenAPI document: bodies, errors, and examples with keys of this very database."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from gelgt.serve.arrow import MEDIA as ARROW
from gelgt.serve.questions import (
    ExplanationBody,
    LookAlikeBody,
    PredictionBody,
    RecommendationBody,
)
from gelgt.serve.requests import JSON
from gelgt.serve.service import Service

BODIES: dict[str, type[BaseModel]] = {
    "/v1/predictions": PredictionBody,
    "/v1/recommendations": RecommendationBody,
    "/v1/explanations": ExplanationBody,
    "/v1/look-alikes": LookAlikeBody,
}
ARROWS = ("/v1/predictions", "/v1/recommendations")
ERRORS = {
    "400": "The request does not fit.",
    "401": "The token is missing or wrong.",
    "403": "The request names another host.",
    "404": "There is no such entity, or no such path.",
    "408": "The body came too slowly.",
    "413": "The body is too large, or names too many entities.",
    "415": "The body is of another type.",
    "422": "Understood, and cannot be done.",
    "429": "Too many requests wait; Retry-After says how long.",
    "503": "The server stops.",
    "504": "There was no answer in time.",
}
ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message", "hint"],
            "properties": {n: {"type": "string"} for n in ("code", "message", "hint")},
        }
    },
}


def document(app: FastAPI, service: Service) -> dict[str, Any]:
    """The document of a server as it is now."""
    content = get_openapi(
        title="gelgt",
        version=app.version,
        description="Predictions of a trained run, with every row before the seed time and none "
        "after it.",
        routes=app.routes,
    )
    parts = content.setdefault("components", {})
    _, shapes = models_json_schema(
        [(kind, "validation") for kind in BODIES.values()],
        ref_template="#/components/schemas/{model}",
    )
    parts["schemas"] = {**shapes["$defs"], "Error": ERROR}
    if service.settings.token is not None:
        parts["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        content["security"] = [{"token": []}]
    for path, methods in content["paths"].items():
        for operation in methods.values():
            _complete(path, operation, service)
    return content


def _complete(path: str, operation: dict[str, Any], service: Service) -> None:
    responses = operation["responses"]
    if path in BODIES:
        operation["requestBody"] = _body(path, service)
    error = {"content": {JSON: {"schema": {"$ref": "#/components/schemas/Error"}}}}
    if not path.startswith("/v1/health"):
        responses |= {code: {"description": text, **error} for code, text in ERRORS.items()}
    media = {"/metrics": "text/plain", "/v1/overview.csv": "text/csv"}.get(path, JSON)
    kinds: dict[str, Any] = {media: {}} | ({ARROW: {}} if path in ARROWS else {})
    if path in ("/v1/model", "/v1/explanations"):
        kinds["text/html"] = {}
    responses["200"]["content"] = kinds
    if path == "/v1/refresh":
        responses["202"] = {"description": "It goes on.", "content": {JSON: {}}}
        responses["502"] = {"description": "The source cannot be read.", **error}
    if path.startswith("/v1/health"):
        operation["security"] = []


def _body(path: str, service: Service) -> dict[str, Any]:
    schema = {"$ref": f"#/components/schemas/{BODIES[path].__name__}"}
    content: dict[str, Any] = {JSON: {"schema": schema, "examples": _examples(path, service)}}
    if path in ARROWS:
        content[ARROW] = {"schema": {"type": "string", "format": "binary"}}
    return {"required": True, "content": content}


def _examples(path: str, service: Service) -> dict[str, Any]:
    """Requests that work as they stand."""
    keys, at = (service.served.example[name] for name in ("keys", "at"))
    if not keys:
        return {}
    time = {} if at is None else {"at": at}
    if path in ("/v1/explanations", "/v1/look-alikes"):
        return {"one": {"summary": "One entity", "value": {"entity": keys[0], **time}}}
    found = {"now": {"summary": "Now", "value": {"entities": keys}}}
    if at is not None:
        found["then"] = {"summary": "At a time", "value": {"entities": keys, "at": at}}
        rows = [{"entity": key, "time": at} for key in keys]
        found["rows"] = {"summary": "Each at a time of its own", "value": {"rows": rows}}
    return found
