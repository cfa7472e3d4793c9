"""`python -m gelgt.testing.wide FOLDER [--scale 1.0] [--seed 0]`: write the wide database and print
how to train on it."""

import argparse
import sys

from gelgt.errors import GelgtError
from gelgt.testing.wide import wide_database


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit code: 0, or 2 for a mistake of the user."""
    parser = argparse.ArgumentParser(
        prog="python -m gelgt.testing.wide",
        description="Write a generated database of 24 tables with a known truth.",
    )
    parser.add_argument("folder", help="where to write it")
    parser.add_argument("--scale", type=float, default=1.0, help="1 gives about 600,000 rows")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    try:
        database = wide_database(given.folder, scale=given.scale, seed=given.seed)
    except GelgtError as error:
        print(f"error ({error.code}): {error.message}\n  {error.hint}", file=sys.stderr)
        return 2
    print(
        f'gelgt train {database.folder} "{database.sentence}" '
        f"--val {database.val_timestamp} --test {database.test_timestamp}"
    )
    print(f"best possible test ROC-AUC: {database.oracle_auc:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
