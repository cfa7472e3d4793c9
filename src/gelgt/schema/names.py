"""Words of table and column names, and how well a column name points to a table.

`OwnerUserId` → owner, user + the key word `id`; it points to `users` by its last word.
`constructorStandingsId` points to `constructor_standings` and not to `standings`, because the
longer match wins.
"""

import re

KEY_WORDS = frozenset({"id", "key", "uuid", "guid", "fk", "pk", "sk", "code", "nr", "no"})
SELF_WORDS = frozenset(
    {"parent", "root", "ancestor", "manager", "supervisor", "boss", "reply", "original"}
    | {"previous", "prev", "next", "predecessor", "successor"}
)
NAMESAKE = 30  # of a column that is called like the key of a table, but not after the table
_TABLE_PREFIXES = frozenset({"dim", "fact", "fct", "tbl", "tb", "stg", "t", "d", "f"})
_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+|[^\W\d_A-Za-z]+")


def words(name: str) -> tuple[str, ...]:
    """Lower-case words in the singular: `OrderItems`, `order_items` → ('order', 'item').

    >>> words("constructorStandingsId")
    ('constructor', 'standing', 'id')
    """
    return tuple(singular(w.lower()) for w in _WORD.findall(name))


def singular(word: str) -> str:
    """A rough English singular; good enough to compare names.

    >>> [singular(w) for w in ("categories", "boxes", "addresses", "status", "orders")]
    ['category', 'box', 'address', 'status', 'order']
    """
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "xes", "ches", "shes", "zes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 3:
        return word[:-1]
    return word


def table_words(name: str) -> tuple[str, ...]:
    """Words of a table name without warehouse prefixes (`dim_customer` → customer)."""
    parts = words(name)
    return parts[1:] if len(parts) > 1 and parts[0] in _TABLE_PREFIXES else parts


def stem(column: str) -> tuple[str, ...]:
    """Words of a column name without the key word at its end: `customer_id` → ('customer',), `id` →
    ()."""
    parts = words(column)
    while parts and parts[-1] in KEY_WORDS:
        parts = parts[:-1]
    return parts


def is_keylike(column: str) -> bool:
    """Whether the name ends in a key word."""
    parts = words(column)
    return bool(parts) and parts[-1] in KEY_WORDS


def points_to(column: str, table: str, table_key: str | None) -> int:
    """How strongly a column name points to a table: 0 not at all, higher is stronger.

    >>> points_to("raceId", "races", "raceId") > points_to("OwnerUserId", "users", "Id") > 0
    True
    >>> points_to("PostTypeId", "posts", "Id")
    0
    >>> points_to("order", "orders", "id") > points_to("orders", "orders", "id")  # a number of them
    True
    >>> points_to("user_id", "users", "id") > points_to("user_id", "profiles", "user_id")
    True
    """
    names, tables = stem(column), table_words(table)
    if not names:
        return 0
    is_same = table_key is not None and column.lower() == table_key.lower()
    is_end = bool(tables) and len(names) > len(tables) and names[-len(tables) :] == tables
    score = NAMESAKE if is_same else 0
    if _is_glued(column, tables) or (
        names == tables and (is_keylike(column) or not _is_plural(column))
    ):
        score += 50 + len(tables)
    elif is_keylike(column) and is_end:
        score += 10 + len(tables)
    elif not is_same and is_keylike(column) and table_key is not None and names == stem(table_key):
        score += 10
    return score


def _is_glued(column: str, tables: tuple[str, ...]) -> bool:
    """Whether a name is a table's and a key word, with nothing between them: `customerid`."""
    name, table = "".join(words(column)), "".join(tables)
    return bool(table) and name in (f"{table}id", f"{table}key", f"{table}code")


def _is_plural(column: str) -> bool:
    last = str(_WORD.findall(column)[-1]).lower()
    return singular(last) != last


def names_own_table(column: str, table: str) -> bool:
    """Whether a key column is named after its own table: `qualifyId` in `qualifying`,
    `driverStandingsId` in `standings`."""
    names, tables = stem(column), table_words(table)
    if _is_glued(column, tables):
        return True
    if not names or not tables or not is_keylike(column):
        return False
    last, table_last = names[-1], tables[-1]
    is_similar = len(last) >= 4 and (table_last.startswith(last) or last.startswith(table_last))
    is_same_start = len(names) == len(tables) and tables[:-1] == names[:-1]
    return names[-len(tables) :] == tables or (is_similar and is_same_start)
