"""Sources: whatever holds a user's tables, opened as one `Database`."""

from gelgt.sources.database import Database
from gelgt.sources.registry import open

__all__ = ["Database", "open"]
