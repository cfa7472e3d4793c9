"""Addresses in object storage, and the file system of each provider.

    s3://bucket/prefix      AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_PROFILE, the role of the
                            machine; AWS_REGION; AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL
    gs://bucket/prefix      GOOGLE_APPLICATION_CREDENTIALS, the role of the machine;
                            STORAGE_EMULATOR_HOST
    az://container/prefix   AZURE_STORAGE_ACCOUNT_NAME with AZURE_STORAGE_ACCOUNT_KEY or
                            AZURE_STORAGE_SAS_TOKEN, or Azure's default credentials;
                            AZURE_STORAGE_ENDPOINT

Credentials come from the environment of the process and from nowhere else; an address that holds
some is refused, and nothing repeats it.
"""

import os
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeGuard

from gelgt.errors import GelgtError, SourceError
from gelgt.storage.failures import scrubbed

SCHEMES = ("s3", "gs", "az")
CONNECT_SECONDS = 5.0
SDK_ATTEMPTS = 2  # of each request inside pyarrow; store.py tries again around it
_TIMEOUT = "GELGT_STORAGE_TIMEOUT"
_ENDPOINTS = {
    "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    "gs": ("STORAGE_EMULATOR_HOST",),
    "az": ("AZURE_STORAGE_ENDPOINT",),
}
_AZURE_ACCOUNT = "AZURE_STORAGE_ACCOUNT_NAME"
_AZURE_SECRETS = {
    "account_key": "AZURE_STORAGE_ACCOUNT_KEY",
    "sas_token": "AZURE_STORAGE_SAS_TOKEN",
}
_CLASSES = {"s3": "S3FileSystem", "gs": "GcsFileSystem", "az": "AzureFileSystem"}


def is_storage(address: Any) -> TypeGuard[str]:
    """Whether something is an address in object storage.

    >>> is_storage("s3://bucket/shop"), is_storage("exports/")
    (True, False)
    """
    return isinstance(address, str) and address.startswith(tuple(f"{s}://" for s in SCHEMES))


def safe_place(address: str) -> str:
    """An address as it may be shown: without credentials and without a signed query.

    >>> safe_place("s3://AKIA1:secret@bucket/shop/?X-Amz-Signature=ab")
    's3://bucket/shop'
    """
    scheme, _, rest = address.partition("://")
    rest = rest.split("?", 1)[0]
    bucket, slash, key = rest.partition("/")
    # a secret key may itself hold slashes, so that it ends at the last @ if it begins before one
    if ":" in bucket and "@" not in bucket and "@" in key:
        bucket, slash, key = key.rpartition("@")[2].partition("/")
    return f"{scheme}://" + f"{bucket.rpartition('@')[2]}{slash}{key}".rstrip("/")


def check_local(path: str | Path, what: str) -> None:
    """Raises where something that is written here alone is to go to object storage; `Path` makes
    one slash of the two of an address."""
    if str(path).startswith(tuple(f"{scheme}:/" for scheme in SCHEMES)):
        raise GelgtError(
            "not_local",
            f"{what} cannot be written to object storage.",
            hint="Give a local place, and copy it from there.",
        )


@dataclass(frozen=True)
class Place:
    """A bucket, a prefix or an object.

    Attributes:
        scheme: ``s3``, ``gs`` or ``az``.
        path: Bucket and key, as pyarrow writes them: ``bucket/prefix``.
    """

    scheme: str
    path: str

    @classmethod
    def of(cls, address: str) -> "Place":
        """The place of an address.

        Raises:
            SourceError: ``bad_address`` where it names no bucket, or holds credentials or options.
        """
        shown = safe_place(address)
        if shown.rstrip("/") != address.rstrip("/"):
            raise SourceError(
                "bad_address",
                f"The address of {shown} holds credentials or options.",
                hint="Give it without them; credentials come from the environment, such as "
                "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.",
            )
        scheme, _, path = shown.partition("://")
        if not path or path.startswith("/"):
            raise SourceError(
                "bad_address",
                f"'{scheme}://' names no bucket.",
                hint=f"Write {scheme}://bucket/prefix.",
            )
        return cls(scheme, path)

    @property
    def bucket(self) -> str:
        return self.path.partition("/")[0]

    def __str__(self) -> str:
        return f"{self.scheme}://{self.path}"

    @property
    def endpoint(self) -> str:
        """The server that the environment names instead of the provider's own; empty for that."""
        value = (os.environ.get(name) for name in _ENDPOINTS[self.scheme])
        return next(filter(None, value), "")

    @property
    def server(self) -> str:
        """What tells apart objects of the same address: the endpoint and, at Azure, the account."""
        account = os.environ.get(_AZURE_ACCOUNT, "") if self.scheme == "az" else ""
        return f"{self.endpoint} {account}".strip()

    def file_system(self) -> Any:
        """pyarrow's file system for this provider, with bounded waits."""
        import pyarrow.fs

        kind = getattr(pyarrow.fs, _CLASSES[self.scheme], None)
        if kind is None:
            raise SourceError(
                "missing_package",
                f"This build of pyarrow cannot read {self.scheme}://.",
                hint="Install the one of the package index: pip install --force-reinstall pyarrow",
            )
        try:
            return {"s3": self._s3, "gs": self._gs, "az": self._az}[self.scheme](kind)
        except (TypeError, ValueError) as error:  # an endpoint or a key that is none
            raise SourceError(
                "bad_setting",
                f"The settings of this environment for {self.scheme}:// cannot be used: "
                f"{scrubbed(str(error))}.",
                hint="Check the variables that docs/sources.md names.",
            ) from None

    def _s3(self, kind: Any) -> Any:
        from pyarrow.fs import AwsStandardS3RetryStrategy

        return kind(
            endpoint_override=self.endpoint or None,
            connect_timeout=CONNECT_SECONDS,
            request_timeout=_seconds(),
            retry_strategy=AwsStandardS3RetryStrategy(max_attempts=SDK_ATTEMPTS),
        )

    def _gs(self, kind: Any) -> Any:
        scheme, _, host = self.endpoint.rpartition("://")
        return kind(
            endpoint_override=host or None,
            scheme=scheme or None,
            anonymous=bool(host),  # an emulator knows no credentials
            retry_time_limit=timedelta(seconds=_seconds()),
        )

    def _az(self, kind: Any) -> Any:
        account = os.environ.get(_AZURE_ACCOUNT)
        if not account:
            raise SourceError(
                "no_access",
                f"{self} belongs to a storage account that is not named.",
                hint="Set AZURE_STORAGE_ACCOUNT_NAME.",
            )
        options = {"account_name": account}
        scheme, _, host = self.endpoint.rstrip("/").rpartition("://")
        for kind_of in ("blob", "dfs") if host else ():
            options |= {f"{kind_of}_storage_authority": host}
            options |= {f"{kind_of}_storage_scheme": scheme or "https"}
        for option, variable in _AZURE_SECRETS.items():
            if os.environ.get(variable) and not {*_AZURE_SECRETS} & {*options}:
                options[option] = os.environ[variable]
        return kind(**options)


def _seconds() -> float:
    """How long an answer may not come, or stop coming, before the request counts as lost."""
    text = os.environ.get(_TIMEOUT, "20")
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if seconds <= 0:
        raise SourceError(
            "bad_setting",
            f"{_TIMEOUT} must be a number of seconds above 0, got '{text}'.",
            hint="Set 20, or leave it out.",
        )
    return seconds
