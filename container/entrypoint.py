"""Entry point of the image: `gelgt` with the arguments of the container.

Secrets that come as files, as Docker and Kubernetes mount them, are put into the environment, where
gelgt and the database drivers look for them: GELGT_TOKEN_FILE=/run/secrets/token becomes
GELGT_TOKEN. Then this process becomes gelgt, so that signals such as SIGTERM reach it.
"""

import os
import sys
from pathlib import Path

SECRETS = ("GELGT_TOKEN", "PGPASSWORD")


def with_secrets(environment: dict[str, str]) -> dict[str, str]:
    """The environment with the secrets that files hold; one that is set itself stays.

    Raises:
        SystemExit: a file cannot be read, or is empty.
    """
    result = dict(environment)
    for name in SECRETS:
        path = result.pop(f"{name}_FILE", "")
        if not path or result.get(name):
            continue
        try:
            result[name] = Path(path).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not text"
            raise SystemExit(f"error: {name}_FILE: {path} cannot be read: {reason}.") from None
        if not result[name]:
            raise SystemExit(f"error: {name}_FILE: {path} is empty.")
    return result


if __name__ == "__main__":
    os.execvpe("gelgt", ["gelgt", *sys.argv[1:]], with_secrets(dict(os.environ)))
