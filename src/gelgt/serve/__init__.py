"""Serving: a trained run that answers over HTTP, thin over `Predictor` and `Explainer`.

batching.py     questions of many requests, answered together
questions.py    what a request asks: JSON or Arrow, checked
served.py       a run on one state of its source, whole
answering.py    a batch of questions → tables, errors apart
service.py      the state that answers now, and how a refresh replaces it
overview.py     all predictions at one time, and who is alike
search.py       entities by key and text
card.py         what the model is: task, scores, data
guard.py        token, host, size and time of requests
failures.py     errors as responses, without paths
meters.py       Prometheus
app.py          the routes
server.py       uvicorn around them, until a signal
page/           the page at /
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gelgt.serve.app import make_app
    from gelgt.serve.server import serve
    from gelgt.serve.service import Service
    from gelgt.serve.settings import ServeSettings

_HOME = {
    "make_app": "gelgt.serve.app",
    "serve": "gelgt.serve.server",
    "Service": "gelgt.serve.service",
    "ServeSettings": "gelgt.serve.settings",
}
__all__ = ["ServeSettings", "Service", "make_app", "serve"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'gelgt.serve' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
