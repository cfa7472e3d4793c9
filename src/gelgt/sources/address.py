"""Database addresses without their passwords.

A password is used to connect and nowhere else: not in a file, a log, an error or a report. Every message that a driver
gives is passed through `scrub` before a user sees it.
"""

from urllib.parse import quote, quote_plus, unquote

from sqlalchemy.engine import URL

_SECRET_WORDS = ("password", "passwd", "pwd", "secret", "token", "sslpassword", "sslkey")


def safe_address(url: URL) -> str:
    """The address as it may be shown: neither the password nor query values that look like secrets."""
    query = {k: v for k, v in url.query.items() if not any(word in k.lower() for word in _SECRET_WORDS)}
    return url.set(query=query)._replace(password=None).render_as_string(hide_password=True)


def scrub(message: str, url: URL) -> str:
    """A driver's message without any form of the secrets in the address."""
    secrets = [str(url.password)] if url.password else []
    for key, value in url.query.items():
        if any(word in key.lower() for word in _SECRET_WORDS):
            secrets += [value] if isinstance(value, str) else list(value)
    # quote(s, safe=" +") is how SQLAlchemy writes a password into an address.
    forms = {form for s in secrets for form in (s, quote(s, safe=""), quote(s, safe=" +"), quote_plus(s), unquote(s), repr(s)[1:-1])}
    for form in sorted(forms, key=len, reverse=True):
        if form:
            message = message.replace(form, "***")
    return message
