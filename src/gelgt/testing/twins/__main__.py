"""`python -m gelgt.testing.twins NAME FOLDER [--seed 0] [--scale 1.0]`: write a twin; without
arguments, list them."""

import argparse
import sys

from gelgt.errors import GelgtError
from gelgt.testing.twins import TWINS, make_twin, twin_tasks


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit code: 0, or 2 for a mistake of the user."""
    parser = argparse.ArgumentParser(
        prog="python -m gelgt.testing.twins",
        description="Write a small database with a RelBench schema.",
    )
    parser.add_argument("name", nargs="?", help=f"one of {', '.join(TWINS)}")
    parser.add_argument("folder", nargs="?", help="where to write it")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scale", type=float, default=1.0, help="times the number of rows")
    given = parser.parse_args(arguments)
    if given.name is None:
        for name in TWINS:
            print(f"{name}: {', '.join(twin_tasks(name))}")
        return 0
    if given.folder is None:
        parser.error("a folder is needed")
    try:
        print(make_twin(given.name, given.folder, seed=given.seed, scale=given.scale))
    except GelgtError as error:
        print(f"error ({error.code}): {error.message}\n  {error.hint}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
