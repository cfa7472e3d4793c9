"""When memory runs out: each library says so in its own way, and the user gets one answer."""

from gelgt.errors import GelgtError

# of PyTorch on CPU and GPU, LightGBM, DuckDB, Python's threads, and of files that are mapped
WORDS = (
    "can't allocate memory",
    "cannot allocate memory",
    "out of memory",
    "bad_alloc",
    "can't start new thread",
    "failed to map segment",
)


def lacks_memory(error: BaseException) -> bool:
    """Whether an error, or one that it came from, says that memory ran out."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, MemoryError) or any(word in str(seen).lower() for word in WORDS):
            return True
        seen = seen.__cause__ or seen.__context__
    return False


def no_memory(error: BaseException) -> GelgtError:
    """What the user is told."""
    lines = str(error).strip().splitlines()
    said = f" ({lines[0][:200]})" if lines else ""
    return GelgtError(
        "out_of_memory",
        f"The system gave no more memory: {type(error).__name__}{said}.",
        hint="Close other programs or use a larger machine; smaller batches need less: --set "
        "train.batch_size=64. What was finished is kept, and an interrupted training goes on with "
        "--resume.",
    )
