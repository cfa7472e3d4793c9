"""What object storage answers instead of data, as errors that name the object and the repair.

pyarrow gives a provider's answer as the text of an error, mostly an `OSError`; the codes in it are
stable. The text itself is cut to one line and scrubbed: it may hold addresses with tokens.
"""

import os
import re

from gelgt.errors import SourceError

# Answers that another attempt may replace: the server's own trouble, and the network's.
_PASSING = re.compile(
    r"NETWORK_CONNECTION|HTTP status 5\d\d|SLOW_DOWN|THROTTL|SERVICE_UNAVAILABLE|INTERNAL_FAILURE"
    r"|REQUEST_TIMEOUT|REQUEST_EXPIRED|curlCode|UNAVAILABLE|DEADLINE_EXCEEDED|INTERNAL\b"
    r"|RESOURCE_EXHAUSTED|\b50[0234]\b|[Tt]imed? ?out|[Cc]onnection reset",
)
_DENIED = re.compile(
    r"ACCESS_DENIED|INVALID_ACCESS_KEY|SIGNATURE|INVALID_CLIENT_TOKEN|UNRECOGNIZED_CLIENT"
    r"|EXPIRED_TOKEN|PERMISSION_DENIED|UNAUTHENTICATED|[Aa]uthenticat|Authorization"
    r"|HTTP status 40[13]|\b40[13]\b|[Cc]redential|access token|Base64"
)
_ABSENT = re.compile(
    r"NO_SUCH|RESOURCE_NOT_FOUND|NOT_FOUND|HTTP status 404|NoSuch|NotFound|No such file"
)
_UNREACHABLE = re.compile(r"curlCode: (6|7|28)\b|[Cc]ould ?n[o']t (resolve|connect)|Timeout was")
_SECRET_NAMES = re.compile(r"SECRET|TOKEN|KEY|PASSWORD|SAS|CREDENTIAL")
_QUERY = re.compile(r"\?\S+")
_QUOTED = re.compile(r"'[^']*'")


def _answer(error: Exception) -> str:
    """A message without the names in it: a key may look like a code."""
    return _QUOTED.sub("", str(error))


def is_lasting(error: Exception) -> bool:
    """Whether another attempt would fail in the same way."""
    text = _answer(error)
    if isinstance(error, FileNotFoundError) or _DENIED.search(text):
        return True
    return not (_PASSING.search(text) or _UNREACHABLE.search(text))


def storage_error(error: Exception, place: str, attempts: int = 1) -> SourceError:
    """A provider's answer about an object or a prefix.

    Args:
        error: The answer.
        place: The address that was asked for.
        attempts: How often it was asked for.
    """
    text, answer = scrubbed(str(error)).rstrip("."), _answer(error)
    if isinstance(error, FileNotFoundError) or _ABSENT.search(answer):
        return SourceError(
            "not_found", f"There is nothing at {place}.", hint="Check the bucket and the prefix."
        )
    if _DENIED.search(answer):
        return SourceError(
            "no_access",
            f"{place} may not be used with the credentials of this environment, or there are none.",
            hint=_CREDENTIALS[place.partition("://")[0]],
        )
    times = f" {attempts} times" if attempts > 1 else ""
    if _UNREACHABLE.search(answer):
        return SourceError(
            "unreachable",
            f"The server of {place} was asked{times} and did not answer: {text}.",
            hint="Check the network and the endpoint (AWS_ENDPOINT_URL and the like), or try "
            "again later.",
        )
    return SourceError(
        "storage_failed",
        f"{place} was asked for{times} and could not be transferred: {text}.",
        hint="Try again later.",
    )


_CREDENTIALS = {
    "s3": "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or give the machine a "
    "role that may list, read and, for --out, write there.",
    "gs": "Set GOOGLE_APPLICATION_CREDENTIALS, or give the machine's service account access.",
    "az": "Set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY, or sign in to Azure.",
}


def scrubbed(text: str) -> str:
    """The first line of a message, without queries and without the values of variables of the
    environment that hold secrets."""
    text = _QUERY.sub("", text.strip().split("\n", 1)[0])
    values = {
        value
        for name, value in os.environ.items()
        if name.startswith(("AWS_", "AZURE_", "GOOGLE_", "GCS_")) and _SECRET_NAMES.search(name)
    }
    for value in sorted((v for v in values if len(v) > 3), key=len, reverse=True):
        text = text.replace(value, "***")
    return re.sub(r"://[^/\s@]*@", "://***@", text)[:300]
