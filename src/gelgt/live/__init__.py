"""The page that shows a training while it goes on: phases, curves, time left, and how it ended.

    with LiveServer(RunFolder(Path("runs/churn"))) as server:
        print(server.address)

A thread serves it on this machine alone, from `progress.json` in the run folder
(`runs/progress.py`). The page is plain HTML, one style sheet and one script from this package; it
asks again every second and loads nothing from anywhere else.
"""

from gelgt.live.folder import RunFolder, Watched
from gelgt.live.server import LiveServer

__all__ = ["LiveServer", "RunFolder", "Watched"]
