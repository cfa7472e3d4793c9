"""Label tables from a RelBench task manifest, a PREDICT sentence, DuckDB SQL, or a frame."""

from gelgt.tasks.make import make_task
from gelgt.tasks.task import Preview, Task

__all__ = ["Preview", "Task", "make_task"]
