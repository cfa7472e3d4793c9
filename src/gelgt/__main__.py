"""`python -m gelgt`, where the command is not on the PATH."""

from gelgt.cli import main

if __name__ == "__main__":
    main()
