"""A database of 68 tables as companies have them: sales, staff, products, purchases, with dates
that are no row times, columns that are filled later, dangling keys and constants."""

import sqlite3
from datetime import datetime, timedelta
from pathlib import Path

LOOKUPS = [
    "countryregion",
    "currency",
    "culture",
    "illustration",
    "location",
    "productcategory",
    "productdescription",
    "productmodel",
    "salesreason",
    "scrapreason",
    "shift",
    "shipmethod",
    "specialoffer",
    "unitmeasure",
    "addresstype",
    "contacttype",
    "phonenumbertype",
    "department",
]  # names alone
ENTITIES = [
    "businessentity",
    "product",
    "vendor",
    "store",
    "employee",
    "customer",
]  # with a created date
EVENTS = [
    "salesorderheader",
    "purchaseorderheader",
    "workorder",
    "transactionhistory",
    "productreview",
    "jobcandidate",
    "shoppingcartitem",
    "currencyrate",
    "document",
]  # with a time and a date that comes later
LINES = [
    "salesorderdetail",
    "purchaseorderdetail",
    "workorderrouting",
    "salesorderheadersalesreason",
    "productcosthistory",
    "productlistpricehistory",
    "employeepayhistory",
    "employeedepartmenthistory",
    "salespersonquotahistory",
    "salesterritoryhistory",
    "transactionhistoryarchive",
    "billofmaterials",
    "productinventory",
    "productvendor",
    "specialofferproduct",
    "personcreditcard",
    "creditcard",
    "emailaddress",
    "password",
    "personphone",
    "businessentityaddress",
    "businessentitycontact",
    "productdocument",
    "productphoto",
    "productproductphoto",
    "productmodelillustration",
    "productsubcategory",
    "salestaxrate",
    "salesterritory",
    "stateprovince",
    "countryregioncurrency",
    "address",
    "person",
    "salesperson",
    "productmodelculture",
]  # with dates, dated by what they name

ROWS = 60
BEGIN = datetime(2022, 1, 1)


def wide_database(path: Path) -> Path:
    """Write the database as a SQLite file."""
    with sqlite3.connect(path) as db:
        for number, name in enumerate(LOOKUPS):
            db.execute(f"CREATE TABLE {name} (id INTEGER PRIMARY KEY, name TEXT, active INTEGER)")
            rows = [(i, f"{name} {i}", 1) for i in range(5 + number)]
            db.executemany(f"INSERT INTO {name} VALUES (?, ?, ?)", rows)
        for number, name in enumerate(ENTITIES):
            _create(db, name, [LOOKUPS[number], LOOKUPS[number + 6]], ["created_at", "birthdate"])
        for number, name in enumerate(EVENTS):
            parents = [ENTITIES[number % 6], ENTITIES[(number + 1) % 6], LOOKUPS[number]]
            _create(db, name, parents, ["placed_at", "shipdate"])
        for number, name in enumerate(LINES):
            parents = [EVENTS[number % 9], ENTITIES[number % 6], LOOKUPS[number % 18]]
            _create(db, name, parents, ["modifieddate"], is_broken=number % 7 == 0)
    return path


def _create(
    db: sqlite3.Connection, name: str, parents: list[str], dates: list[str], is_broken: bool = False
) -> None:
    keys = [f"{parent}id" for parent in parents]
    columns = ["id INTEGER PRIMARY KEY", *(f"{date} TIMESTAMP" for date in dates), "rowguid TEXT"]
    columns += [
        f"{key} INTEGER REFERENCES {parent}" for key, parent in zip(keys, parents, strict=True)
    ]
    columns += ["status INTEGER", "amount REAL", "comment TEXT"]
    db.execute(f"CREATE TABLE {name} ({', '.join(columns)})")
    rows = []
    for i in range(ROWS):
        moment = BEGIN + timedelta(days=7 * i)
        later = moment + timedelta(days=9)
        times = {"birthdate": BEGIN - timedelta(days=9_000 + i), "shipdate": later}
        times["modifieddate"] = BEGIN + timedelta(days=2_000)  # of the last load
        named = [99 if is_broken and k == 0 and i % 9 == 0 else i % 5 for k in range(len(keys))]
        values = [str(times.get(date, moment)) for date in dates]
        rows.append([i, *values, f"{i:08x}", *named, 1, i * 1.5, None])
    db.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(rows[0]))})", rows)
