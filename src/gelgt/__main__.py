"""`python -m gelgt`, where the command is not on the PATH."""

from gelgt.cli import script

if __name__ == "__main__":
    script()
