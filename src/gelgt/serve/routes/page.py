"""The page at /, from the files of the package."""

from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.responses import Response

from gelgt.serve.routes.base import HTML

PAGE = Path(__file__).parents[1] / "page"
STATIC = {".js": "text/javascript", ".css": "text/css"}


async def page() -> Response:
    return Response((PAGE / "index.html").read_bytes(), media_type=HTML)


async def static(name: str) -> Response:
    found = next((path for path in PAGE.iterdir() if path.name == name), None)
    if found is None or found.suffix not in STATIC:
        raise HTTPException(404)
    if name == "page.css":
        from gelgt.serve.style import style

        return Response(style(), media_type=STATIC[".css"])
    return Response(found.read_bytes(), media_type=STATIC[found.suffix])
