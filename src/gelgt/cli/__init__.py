"""The command line: thin commands over the library. The exit code is 0 for success, 2 for a user
error, 1 for a bug and 130 after Ctrl-C."""

import os
import sys

from gelgt.errors import GelgtError


def script() -> None:
    """Entry point of the `gelgt` script: a command in a process of its own."""
    if sys.argv[1:2] == ["predict"]:
        from gelgt.cli.lean import prepare

        prepare()
    try:
        main()
    except SystemExit as ending:
        if not ending.code:
            from gelgt.cli.lean import end

            end()
        raise


def main() -> None:
    """Run the command that the arguments of the process name."""
    # Threads of torch and LightGBM that wait for each other spin by default. Where other work wants
    # the cores too, that made training 4 times and LightGBM 50 times slower (two cores, load 4). It
    # is read when these libraries are loaded, which is after this.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    from gelgt.cli.app import app
    from gelgt.cli.output import print_error

    as_json = "--json" in sys.argv
    try:
        app()
    except GelgtError as error:
        print_error(error, as_json)
        sys.exit(2)
    except OSError as error:
        message = f"{error.strerror or error}: {error.filename}"
        hint = "Check that the file exists and that you may read or write it."
        print_error(GelgtError("cannot_use_file", message, hint), as_json)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        from gelgt.cli.memory import lacks_memory, no_memory

        if lacks_memory(error):
            print_error(no_memory(error), as_json)
            sys.exit(2)
        # a bug: its traceback goes to standard error, and stdout still holds one object
        if as_json:
            message = f"A bug in gelgt: {type(error).__name__}."
            hint = "Please report it with the traceback on standard error."
            print_error(GelgtError("bug", message, hint), as_json=True)
        raise
    except SystemExit as ending:
        if ending.code == 2 and as_json:
            # The command line itself is not repeated here: an address may hold a password.
            message = "The command line cannot be parsed; standard error says why."
            print_error(GelgtError("bad_command", message, "See gelgt --help."), as_json=True)
        raise
