"""What a server is told: where it listens, whom it answers, and its limits."""

import ipaddress
from dataclasses import dataclass

from gelgt.errors import GelgtError


@dataclass(frozen=True)
class ServeSettings:
    """Settings of a server.

    Attributes:
        host: The address that it listens on.
        port: 0 takes a free one.
        token: What requests have to bring; None for anyone who reaches the server.
        refresh: Seconds between two looks at the source; None for none.
        queue: Requests that may wait; more are answered with 429.
        time_limit: Seconds for the answer to a request.
        body_bytes: Of a request at most.
        rows: Entities of a request at most.
        batch_seeds: Seeds that are predicted together at most.
        batch_seconds: How long the first of them waits for others.
        receive_seconds: In which headers and body of a request have to arrive.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    token: str | None = None
    refresh: float | None = None
    queue: int = 64
    time_limit: float = 30.0
    body_bytes: int = 8 << 20
    rows: int = 10_000
    batch_seeds: int = 256
    batch_seconds: float = 0.005
    receive_seconds: float = 10.0

    def __post_init__(self) -> None:
        if self.token is None and not self.is_local:
            raise GelgtError(
                "no_token",
                f"{self.host} can be reached by others, and there is no token.",
                hint="Put a secret into an environment variable and name it with --token-env, or "
                "listen on 127.0.0.1.",
            )
        if self.token is not None and (len(self.token) < 8 or not self.token.isascii()):
            raise GelgtError(
                "bad_token",
                "A token has at least 8 characters, all of them ASCII.",
                hint="Make one, for example with: openssl rand -hex 32",
            )

    @property
    def is_local(self) -> bool:
        """Whether only this machine reaches the server."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False
