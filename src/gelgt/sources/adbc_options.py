"""Addresses of warehouses as the options that their ADBC drivers take."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy.engine import URL


def _snowflake(url: URL) -> dict[str, str]:
    database, _, schema = (url.database or "").partition("/")
    named = {"account": url.host, "db": database, "schema": schema, **url.query}
    return {
        "username": url.username or "",
        "password": str(url.password or ""),
        **_named(named, "adbc.snowflake.sql."),
        "adbc.snowflake.sql.client_option.disable_telemetry": "true",
    }


def _bigquery(url: URL) -> dict[str, str]:
    named = {"project_id": url.host, "dataset_id": url.database, **url.query}
    return _named(named, "adbc.bigquery.sql.")


def _named(options: Mapping[str, Any], prefix: str) -> dict[str, str]:
    """Options under the names that a driver knows."""
    return {
        name if name.startswith("adbc.") else prefix + name: str(value)
        for name, value in options.items()
        if value
    }


# Drivers that take options instead of an address; they are extras of gelgt.
OPTIONS = {"snowflake": _snowflake, "bigquery": _bigquery}
