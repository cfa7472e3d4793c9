"""The command line: thin verbs over the library. Exit code 0 is success, 2 a user error, 1 a
bug."""

import os
import sys

from gelgt.errors import GelgtError


def main() -> None:
    """Entry point of the `gelgt` script."""
    # Threads of torch and LightGBM that wait for each other spin by default. Where other work wants
    # the cores too, that made training 4 times and LightGBM 50 times slower (two cores, load 4). It
    # is read when these libraries are loaded, which is after this.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    from gelgt.cli.app import app
    from gelgt.cli.output import print_error

    try:
        app()
    except GelgtError as error:
        print_error(error, as_json="--json" in sys.argv)
        sys.exit(2)
    except OSError as error:
        wrong = GelgtError(
            "cannot_use_file",
            f"{error.strerror or error}: {error.filename}",
            hint="Check that it exists and may be used.",
        )
        print_error(wrong, as_json="--json" in sys.argv)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        # a bug: its traceback goes to standard error, and stdout still holds one object
        if "--json" in sys.argv:
            print_error(
                GelgtError(
                    "bug", f"{type(error).__name__}: please report it", hint="See standard error."
                ),
                as_json=True,
            )
        raise
    except SystemExit as ending:
        if ending.code == 2 and "--json" in sys.argv:
            # The command line itself is not repeated here: an address may hold a password.
            wrong = GelgtError(
                "bad_command",
                "The command line is not understood; standard error says why.",
                hint="See gelgt --help.",
            )
            print_error(wrong, as_json=True)
        raise
