"""Shapes: what real databases do that leads an importer astray, each with shares and names drawn
around it. A shape takes a `Maker` and adds what it is about."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from campaigns.messy_base import Maker
from campaigns.messy_world import ALWAYS, DAY, DAYS, NEVER, Column, Random, Table, World, cut


@dataclass(frozen=True)
class Shape:
    """One shape.

    Attributes:
        make: Adds it to a database.
        needs: Of the business: how entities begin (`birth`), how many leave, how many come once.
        takes: What no second shape may change too.
    """

    name: str
    make: Callable[[Maker], None]
    needs: dict[str, Any] = field(default_factory=dict)
    takes: frozenset[str] = frozenset()


SHAPES: dict[str, Shape] = {}
BEYOND: dict[str, Shape] = {}  # that no rule of today promises to see through
LEAVES = (0.1, 0.3, 0.5, 0.8)


def shape(name: str, takes: str = "", **needs: Any) -> Callable[[Callable[[Maker], None]], Any]:
    def register(make: Callable[[Maker], None]) -> Callable[[Maker], None]:
        shapes = BEYOND if "beyond" in takes else SHAPES
        shapes[name] = Shape(name, make, needs, frozenset(takes.split()))
        return make

    return register


def random_world(random: Random, name: str = "") -> World:
    """A database of one or two shapes; of a given one alone or with another."""
    names = list(SHAPES)
    chosen = [(SHAPES | BEYOND)[name or names[random.integers(len(names))]]]
    if random.random() < 0.4:
        other = SHAPES[names[random.integers(len(names))]]
        if other is not chosen[0] and not other.takes & chosen[0].takes:
            chosen.append(other)
    needs: dict[str, Any] = {}
    for each in sorted(chosen, key=lambda s: "birth" in s.takes):  # whose word is the last
        for what, options in each.needs.items():
            needs[what] = (
                options[random.integers(len(options))] if isinstance(options, tuple) else options
            )
    if needs.get("birth") == "none":
        needs["spread"] = 0.0
    maker = Maker(random, needs)
    maker.world.facts.update(needs)
    for each in sorted(chosen, key=lambda s: "events" not in s.takes):
        each.make(maker)
    return maker.finish(tuple(each.name for each in chosen))


# 1. Tables without a time whose keys have gaps.
def _products(m: Maker, count: int) -> Table:
    """Products, launched before the first event, some of them later; or without a time."""
    kind = m.pick(["launched", "launched", "timeless"])
    launch = m.start - (m.random.random(count) * 300 * DAY).astype(np.int64)
    late = m.some(count, m.share(0, 0.2))
    launch[late] += (m.random.random(int(late.sum())) * 0.3 * m.days * DAY).astype(
        np.int64
    ) + 300 * DAY
    form = m.form()
    born = cut(launch, form) if kind == "launched" else np.full(count, ALWAYS)
    table = m.add(m.product, born)
    if kind == "launched":
        m.put(
            table,
            m.pick(["launched_at", "created_at", "listed_on", "introduced", "added_on"]),
            m.times(born, form),
        )
    m.filler(table)
    return table


def _chosen_products(m: Maker, products: Table, times: NDArray[np.int64]) -> NDArray[np.int64]:
    """(rows,) a product for each time, one that exists then."""
    order = np.argsort(products.born, kind="stable")
    there = np.searchsorted(products.born[order], times, "right")
    return order[(m.random.random(len(times)) * np.maximum(there, 1)).astype(np.int64)]


@shape("lines with gaps", takes="events lines question stratum")
def lines_with_gaps(m: Maker) -> None:
    gap, how = m.share(), m.pick(["archived", "archived", "old", "scattered"])
    kind = m.pick(["empty", "dangling", "both"])
    if how == "old":
        gap = min(gap, 0.2)
    line_of = np.repeat(np.arange(len(m.owner)), m.random.integers(1, 3, len(m.owner)))
    events, owner, born = len(m.owner), m.owner[line_of], m.time[line_of]
    lost = m.some(events, gap) if how != "old" else np.arange(events) < gap * events
    if how == "scattered":  # lines without an order, which is there
        is_gap, row = m.some(len(line_of), gap), line_of
        kind = "empty"
    else:
        is_gap = lost[line_of]
        row = (np.cumsum(~lost) - 1)[line_of]
        m.drop_events(~lost)
    per_window = len(line_of) * m.window / m.days
    products = _products(m, max(20, int(per_window / np.log(2))))
    lines = m.add(m.line, born)
    event_key = m.put_key(lines, m.events, m.gaps(row, is_gap, kind))
    product_key = m.put_key(lines, products, _chosen_products(m, products, born))
    has_owner = m.chance(0.5)
    owner_key = m.put_key(lines, m.entities, owner) if has_owner else ""
    if m.chance(0.3):
        depots = m.add(m.new(["warehouses"]), np.full(5, ALWAYS))
        m.put_key(lines, depots, m.random.integers(0, 5, lines.rows))
    m.world.facts |= {"gap": gap, "how": how, "kind": kind, "owner": has_owner}
    if gap:
        m.world.doubtful.add(m.line)
    m.world.named |= {m.line, event_key}
    draw = m.random.random()
    if draw < 0.2:
        m.ask(m.line, (product_key,), (event_key,), m.event_time, entity=m.product)
        m.world.stratum = lambda time: np.where(products.born <= time, 0, -1)
    elif draw < 0.4:
        path = (owner_key,) if has_owner else (event_key, m.event_key)
        m.ask(
            m.line, path, (event_key,), m.event_time, value=lines.tag, form=m.pick(["sum", "count"])
        )


def _keyed_rows(m: Maker, name: str, empty: float, lead: int) -> Table:
    """Rows without a time that name the entity, and an event where one came of it.

    Args:
        empty: The share of rows without an event.
        lead: Up to how many seconds before its event a row comes.
    """
    with_event = np.flatnonzero(m.some(len(m.owner), m.pick([0.5, 0.8, 1.0])))
    alone = round(len(with_event) * empty / (1 - empty)) if empty < 1 else 0
    alone = min(alone, 12_000)
    owner = np.concatenate([m.owner[with_event], m.random.integers(0, m.count, alone)])
    born = np.concatenate(
        [
            m.time[with_event] - (m.random.random(len(with_event)) * lead).astype(np.int64),
            m.within(owner[len(with_event) :]),
        ]
    )
    order = m.random.permutation(len(owner))
    event = np.concatenate([with_event, np.full(alone, -1)])
    table = m.add(name, np.maximum(born, m.entities.born[owner])[order])
    kind = m.pick(["empty", "empty", "dangling", "both"])
    event_key = m.put_key(table, m.events, m.gaps(event[order], event[order] < 0, kind))
    m.put_key(table, m.entities, owner[order])
    m.world.named |= {name, event_key}
    return table


@shape("optional order")
def optional_order(m: Maker) -> None:
    empty = m.share()
    name = m.new(["bonus_points", "vouchers", "feedbacks", "calls", "gifts", "incidents"])
    _keyed_rows(m, name, empty, 0)
    m.world.facts |= {"empty": empty, "table": name}
    m.world.doubtful.add(name)


@shape("abandoned carts")
def abandoned_carts(m: Maker) -> None:
    empty = float(m.pick([0.3, 0.4, 0.45, 0.48, 0.5, 0.52, 0.55, 0.6, 0.7, 0.9]))
    name = m.new(["carts", "quotes", "drafts", "inquiries", "applications", "reservations"])
    carts = _keyed_rows(m, name, empty, m.pick([600, 7200, 3 * DAY]))
    if m.chance(0.5):  # lines of carts, with a time through the cart alone
        row = np.repeat(np.arange(carts.rows), 2)[:6000]
        lines = m.add(f"{carts.name}_items", carts.born[row])
        m.put_key(lines, carts, row)
        m.world.doubtful.add(lines.name)
    m.world.facts |= {"empty": empty, "table": name}
    m.world.doubtful.add(name)


@shape("exactly one parent")
def exactly_one_parent(m: Maker) -> None:
    """Notes to an event or to something else, whichever is filled."""
    other_share = m.share()
    name = m.new(["photos", "surveys", "deliveries", "contracts"])
    rows = max(50, len(m.owner) // 2)
    owner = m.random.integers(0, m.count, rows)
    form = m.form()
    came = cut(m.within(owner), form)
    other = m.add(name, came)
    m.put(other, m.pick(["created_at", "date", "taken_at", "timestamp"]), m.times(came, form))
    m.put_key(other, m.entities, owner)
    count = min(6000, len(m.owner))
    is_other = m.some(count, other_share)
    event = m.random.integers(0, len(m.owner), count)
    thing = m.random.integers(0, rows, count)
    born = np.where(is_other, came[thing], m.time[event])
    notes = m.add(m.new(["comments", "attachments", "labels", "remarks"]), born)
    m.put_key(notes, m.events, np.where(is_other, -1, event))
    m.put_key(notes, other, np.where(is_other, thing, -1))
    if m.chance(0.6):
        m.put_key(notes, m.entities, np.where(is_other, owner[thing], m.owner[event]))
    m.world.facts["other"] = other_share
    m.world.doubtful.add(notes.name)


# 2. Times that are numbers.
@shape("events without a time")
def empty_event_times(m: Maker) -> None:
    """Events that are planned, lost or not yet booked have no time; lines and votes name them."""
    share, how = m.share(0.001), m.pick(["any", "old", "new"])
    rows = len(m.owner)
    empty = m.some(rows, share)
    if how != "any":
        empty = (
            np.arange(rows) < share * rows
            if how == "old"
            else np.arange(rows) >= (1 - share) * rows
        )
    if how == "new":
        empty &= m.some(rows, 0.7)
    values = m.events.columns[m.event_time].values
    for row in np.flatnonzero(empty).tolist():
        values[row] = None
    if m.chance(0.6):
        line_of = np.repeat(np.arange(rows), m.random.integers(1, 3, rows))
        lines = m.add(m.new(["positions"]), m.time[line_of])
        m.put_key(lines, m.events, line_of)
        if m.chance(0.4):
            m.put_key(lines, m.entities, m.owner[line_of])
        m.world.doubtful.add(lines.name)
    if m.chance(0.5):
        event = m.random.integers(0, rows, 2000)
        came = np.minimum(m.time[event] + m.random.integers(60, 5 * DAY, 2000), m.end)
        votes = m.add(m.new(["replies"]), came)
        m.put(votes, m.pick(["created_at", "date", "sent_at"]), m.times(came, "iso"))
        m.put_key(votes, m.events, event)
    m.world.facts |= {"empty": share, "how": how}
    m.world.doubtful.add(m.event)
    m.world.named |= {m.event, m.event_time}


@shape("first event of the entity", takes="birth", birth=("clear", "none"))
def first_of_entity(m: Maker) -> None:
    """A key that is written once, with the first event, and never changes."""
    first = np.full(m.count, -1)
    first[m.owner[::-1]] = np.arange(len(m.owner))[::-1]
    known = np.where(first >= 0, m.time[np.maximum(first, 0)], NEVER)
    name = m.pick(["first_{}", "welcome_{}", "initial_{}"]).format(m.singular[m.event].lower())
    key = m.put_key(m.entities, m.events, first, m.style.format(name), known)
    m.world.facts["key"] = key
    m.world.named |= {m.entity, key}
    if m.needs["birth"] == "none":
        m.world.unclear.add(m.entity)


@shape("rows after the first event")
def after_first(m: Maker) -> None:
    """One untimed row for entities that came at least once: a card, a contract, a licence."""
    first = m.first_named()
    share = m.pick([0.05, 0.3, 0.6, 0.9])
    chosen = np.flatnonzero((first < NEVER) & m.some(m.count, share))
    last = m.last_event()[chosen]
    born = first[chosen] if m.chance(0.5) else m.time[last]
    name = m.new(["cards", "licences", "upgrades", "certificates", "debts"])
    table = m.add(name, born)
    m.put_key(table, m.entities, chosen)
    if m.chance(0.5):
        m.drop_key(table)
    m.world.doubtful.add(name)
    m.world.named |= {name}
    m.world.facts["share"] = share


@shape("epoch numbers")
def epoch_numbers(m: Maker) -> None:
    name = m.new(["clicks", "ratings", "pings", "logins", "measurements", "scans"])
    following = np.flatnonzero(m.some(len(m.owner), m.pick([0.5, 0.9])))
    alone = m.random.integers(0, m.count, len(m.owner) // int(m.pick([2, 4])))
    owner = np.concatenate([m.owner[following], alone])
    born = np.concatenate(
        [m.time[following] + m.random.integers(30, 3600, len(following)), m.within(alone)]
    )
    order = m.random.permutation(len(owner))
    form = m.pick(["epoch s", "epoch s", "epoch ms", "epoch us", "epoch f", "us", "digits"])
    if form in DAYS:
        born = cut(born, form)
    table = m.add(name, born[order])
    column = m.pick(
        [
            "ts",
            "timestamp",
            "time",
            "created_utc",
            "at",
            "epoch",
            "event_ts",
            "rated_at",
            "unixtime",
            "when",
            "stamp",
            "createdAt",
            "t",
        ]
    )
    column = m.put(table, column, m.times(born[order], form))
    m.put_key(table, m.entities, owner[order])
    m.world.facts |= {"form": form, "column": column, "table": name}
    m.world.doubtful.add(name)
    m.world.named |= {name, column}


# 3. Keys that are overwritten, and others that look like them.
def _once_stratum(m: Maker) -> None:
    """A customer who has ordered once may never come again: not judged."""
    owner, time = m.owner, m.time

    def stratum(at: int) -> NDArray[np.int64]:
        seen = np.bincount(owner[time <= at], minlength=m.count)
        return np.where(seen == 0, 0, np.where(seen >= 2, 1, -1))

    m.world.stratum = stratum


@shape(
    "pointer of the entity",
    takes="stratum leaves",
    once=(None, 0.5, 0.8, 0.96, 0.99),
    birth=("clear", "clear", "none"),
)
def pointer_of_entity(m: Maker) -> None:
    last = m.last_event()
    if not m.chance(0.8):
        last = np.where(m.some(m.count, m.share(0, 0.2)), -1, last)
    known = np.where(last >= 0, m.time[last], NEVER)
    name = m.pick(["last_{}_id", "latest_{}_id", "current_{}_id", "newest_{}_id", "{}_id"])
    key = m.put_key(m.entities, m.events, last, name.format(m.singular[m.event].lower()), known)
    m.world.facts["key"] = key
    m.world.named |= {key, m.entity}
    if m.needs.get("once") is not None:
        _once_stratum(m)


@shape("pointer around a corner", takes="question")
def pointer_around(m: Maker) -> None:
    """Events belong to the entity through contracts; pointers lead back from either."""
    per = m.random.integers(1, 3, m.count)
    holder = np.repeat(np.arange(m.count), per)
    first = np.cumsum(per) - per
    is_timed, form = m.chance(0.6), m.form()
    born = m.entities.born[holder]
    name = m.new(["subscriptions", "contracts", "threads", "policies", "cards", "cases"])
    if name == "policies":
        m.singular[name] = "policy"
    table = m.add(name, born)
    if is_timed and born[0] != ALWAYS:
        table.born[:] = cut(table.born, form)
        m.put(
            table,
            m.pick(["created_at", "started_on", "opened_at", "signed_at"]),
            m.times(born, form),
        )
    middle = first[m.owner] + (m.random.random(len(m.owner)) * per[m.owner]).astype(np.int64)
    del m.events.columns[m.event_key]
    to_middle = m.put_key(m.events, table, middle)
    to_entity = m.put_key(table, m.entities, holder)
    singular = m.singular[m.event].lower()
    where = m.pick(["entity", "middle", "both"])
    prefix = m.pick(["last", "latest", "current"])
    if where != "middle":
        last = m.last_event()
        m.put_key(
            m.entities,
            m.events,
            last,
            f"{prefix}_{singular}_id",
            np.where(last >= 0, m.time[last], NEVER),
        )
    if where != "entity":
        last = np.full(table.rows, -1)
        last[middle] = np.arange(len(middle))
        m.put_key(
            table,
            m.events,
            last,
            f"{prefix}_{singular}_id",
            np.where(last >= 0, m.time[last], NEVER),
        )
    m.world.facts |= {"where": where, "between": name, "timed": is_timed}
    m.world.named |= {name, m.event, f"{prefix}_{singular}_id"}
    m.ask(m.event, (to_middle, to_entity))


@shape("pointer to the own table", takes="own-key")
def pointer_own(m: Maker) -> None:
    """The first event of a conversation, or each, names the newest one: it changes every time. Or
    each names the next one, which is harmless."""
    goes_on = m.pick([0.5, 0.9, 0.97])
    kind = m.pick(["first", "each", "each", "next"])
    following = m.next_event()
    following[~m.some(len(following), goes_on)] = -1
    last, first = np.arange(len(following)), np.ones(len(following), bool)
    for row in range(len(following) - 1, -1, -1):
        if following[row] >= 0:
            last[row], first[following[row]] = last[following[row]], False
    named = np.where(last == np.arange(len(last)), -1, last)
    if kind == "first":
        named[~first] = -1
    if kind == "next":
        named = following
    known = np.where(named >= 0, m.time[np.maximum(named, 0)], NEVER)
    singular = m.singular[m.event].lower()
    names = ["last_reply_id", "next_{}_id", "newest_{}_id", "last_{}_id", "successor_id"]
    if m.world.is_declared:  # numbers under such a name are no keys otherwise
        names += ["superseded_by", "followup_id", "replaced_by", "latest"]
    name = m.pick(names).format(singular)
    name = m.put_key(m.events, m.events, named, name, known)
    if m.chance(0.4):  # and the other way round
        previous = np.full(len(following), -1)
        has = following >= 0
        previous[following[has]] = np.flatnonzero(has)
        back = m.pick(["reply_to", "previous_{}_id", "parent_id"]).format(singular)
        m.put_key(m.events, m.events, previous, back)
    m.world.facts |= {"key": name, "goes on": goes_on, "kind": kind}
    m.world.named |= {name}


@shape("keys that only look like pointers", takes="own-key")
def harmless_keys(m: Maker) -> None:
    singular = m.singular[m.event].lower()
    if m.chance(0.7):
        following = m.next_event()
        previous = np.full(len(following), -1)
        has = np.flatnonzero((following >= 0) & m.some(len(following), m.pick([0.2, 0.6, 1.0])))
        previous[following[has]] = has
        m.put_key(
            m.events,
            m.events,
            previous,
            m.pick(["reply_to", "reply_to_id", "previous_{}_id", "parent_id"]).format(singular),
        )
    if m.chance(0.7):
        by_age = np.argsort(m.entities.born, kind="stable")
        older = np.full(m.count, -1)
        older[by_age[1:]] = by_age[
            (m.random.random(m.count - 1) * np.arange(1, m.count)).astype(np.int64)
        ]
        older[m.some(m.count, m.share(0, 0.55))] = -1
        m.put_key(
            m.entities,
            m.entities,
            older,
            m.pick(["manager_id", "referred_by_id", "parent_id", "sponsor_id"]),
        )
    if m.chance(0.6):  # sessions before the event that they belong to
        chosen = np.flatnonzero(m.some(len(m.owner), 0.5))
        form = "iso"
        born = m.time[chosen] - m.random.integers(600, 3 * DAY, len(chosen))
        born = np.maximum(born, m.born[m.owner[chosen]])
        table = m.add(m.new(["qualifyings", "preparations", "bookings", "estimates"]), born)
        m.put(table, m.pick(["created_at", "date", "held_at", "recorded_at"]), m.times(born, form))
        m.put_key(table, m.events, chosen)
        if m.chance(0.5):
            m.put_key(table, m.entities, m.owner[chosen])
        m.world.is_fair = False  # a booking means a visit
        m.world.harmless.add(table.name)


# 4. A date of the entity that is not the time of its row.
END_DATES = (
    *("churn_date", "left_at", "exit_date", "unsubscribed_at", "suspended_at", "closed_on"),
    *("deactivated_at", "date_left", "resigned_on", "discharge_date", "withdrawn_at"),
    *("moved_out_on", "blocked_at", "terminated_on", "departure", "opt_out_date", "died_on"),
    *("cancelled_at", "refund_date", "scrapped_on", "expelled_on", "lost_at", "quit_date"),
    *("archived_at", "deleted_at", "last_day", "status_date", "sold_on", "graduated_on", "dt"),
)


def _unclear(m: Maker) -> None:
    m.world.unclear.add(m.entity)


@shape(
    "an end as the only date",
    takes="birth leaves",
    birth=("other", "other", "none"),
    leaves=(0.02, *LEAVES, 0.95),
    spread=(0.0, 0.5),
)
def end_as_only_date(m: Maker) -> None:
    name, form = m.pick(END_DATES), m.form()
    name = m.put(m.entities, name, m.times(m.left, form, known=m.left))
    m.world.facts |= {"column": name, "filled": float(np.mean(m.left < NEVER))}
    m.world.named |= {m.entity, name}
    if m.chance(0.4):
        _along(m, m.entities, m.left, cut(m.left, form), flags=False)
    _unclear(m)


@shape("a load date for a creation", takes="birth", birth="other", spread=(0.0, 0.3, 0.6))
def load_date(m: Maker) -> None:
    name = m.pick(
        [
            "create_date",
            "created_at",
            "created",
            "inserted_at",
            "registered_on",
            "record_date",
            "snapshot_date",
            "added_on",
            "timestamp",
            "loaded_at",
        ]
    )
    how = m.pick(["late", "late", "end", "begin", "nightly", "lag"])
    place = {"late": 0.9, "end": 1.0, "begin": 0.0, "nightly": 0.97, "lag": 0.0}[how]
    loaded = np.full(m.count, m.start + int(place * m.days * DAY))
    if how == "nightly":
        loaded += m.random.integers(0, 3 * 3600, m.count)
    if how == "lag":  # entered some weeks after the entity came
        loaded = m.born + m.random.exponential(40 * DAY, m.count).astype(np.int64)
    share = m.pick([1.0, 1.0, 1.0, 0.99, 0.9, 0.5, 0.2, 0.03])
    is_loaded = m.some(m.count, share)
    shown = np.where(is_loaded, loaded, m.born)
    form = m.form()
    known = np.maximum(shown, m.born)  # a row that came is written again
    name = m.put(m.entities, name, m.times(shown, form, known=np.where(is_loaded, known, m.born)))
    m.world.facts |= {"column": name, "how": how, "share": share}
    m.world.named |= {m.entity, name}
    m.world.shown = cut(shown, form)
    m.entities.born[:] = cut(m.born, form)
    if how == "begin":
        m.entities.born[:] = np.minimum(m.entities.born, cut(shown, form))
    _unclear(m)


@shape("a date copied from a parent", takes="birth group", birth="other", spread=(0.3, 0.6))
def copied_date(m: Maker) -> None:
    share = m.pick([0.96, 0.99, 1.0, 1.0])
    count = int(m.random.integers(10, 80))
    form = m.form(days=0.3)
    founded = cut(m.start - (m.random.random(count) * 400 * DAY).astype(np.int64), form)
    group = m.add(m.group, founded)
    name = m.pick(["created_at", "created", "since", "registered_on", "opened_on"])
    m.put(group, m.pick([name, "founded_at", "created_at", "opened_on"]), m.times(founded, form))
    row = m.random.integers(0, count, m.count)
    m.put_key(m.entities, group, row)
    is_copied = m.some(m.count, share)
    name = m.put(m.entities, name, m.times(np.where(is_copied, founded[row], m.born), form))
    m.entities.born[:] = cut(m.born, form)
    m.world.facts |= {"column": name, "share": share}
    m.world.named |= {m.entity, name}
    _unclear(m)


# 5. A table between the entity and its events whose times are missing.
@shape("empty times in between", takes="question")
def empty_between(m: Maker) -> None:
    share, how = m.share(), m.pick(["any", "old", "new"])
    per = m.random.integers(1, 4, m.count)
    holder = np.repeat(np.arange(m.count), per)
    first = np.cumsum(per) - per
    born = np.maximum(m.born[holder], m.start)
    middle = first[m.owner] + (m.random.random(len(m.owner)) * per[m.owner]).astype(np.int64)
    name = m.new(
        ["guests_of", "profiles", "devices_used", "accounts_held", "dependants", "vehicles"]
    )
    form = m.form()
    table = m.add(name, cut(born, form))
    order = np.argsort(born, kind="stable")
    empty = m.some(table.rows, share)
    if how != "any":
        rank = np.empty(table.rows)
        rank[order] = np.arange(table.rows) / table.rows
        empty = rank < share if how == "old" else rank >= 1 - share
    column = m.pick(
        ["signed_up_at", "created_at", "registered_on", "joined_at", "opened_on", "date"]
    )
    m.put(table, column, m.times(born, form, ~empty))
    del m.events.columns[m.event_key]
    to_middle = m.put_key(m.events, table, middle)
    to_entity = m.put_key(table, m.entities, holder)
    m.world.facts |= {"empty": share, "how": how, "between": name}
    m.world.named |= {name, column}
    m.world.doubtful.add(name)
    m.ask(
        m.event,
        (to_middle, to_entity),
        value=m.events.tag,
        form=m.pick(["exists", "exists", "none", "count", "sum"]),
    )


@shape("empty times of the entity", takes="birth", birth="other", spread=(0.0, 0.3, 0.6))
def empty_entity_times(m: Maker) -> None:
    share, how = m.share(), m.pick(["any", "old"])
    form = m.form()
    empty = (
        m.some(m.count, share) if how == "any" else np.argsort(np.argsort(m.born)) < share * m.count
    )
    name = m.put(
        m.entities,
        m.pick(["created_at", "signup_date", "joined_at", "since"]),
        m.times(m.born, form, ~empty),
    )
    m.entities.born[:] = cut(m.born, form)
    m.world.shown = np.where(empty, NEVER, cut(m.born, form))
    m.world.facts |= {"empty": share, "how": how, "column": name}
    m.world.named |= {m.entity, name}
    _unclear(m)


# 6. Dates inside rows, and what is filled along with them.
def _along(
    m: Maker, table: Table, known: NDArray[np.int64], stored: NDArray[np.int64], flags: bool = True
) -> None:
    """Columns that are written together with a date."""
    has, rows = known < NEVER // 2, table.rows
    reasons = m.random.choice(["moved", "price", "other", "quality"], rows).tolist()
    late: dict[str, Column] = {
        m.pick(["reason", "cancel_reason", "end_note"]): m.later(
            "category", [r if h else None for r, h in zip(reasons, has)], stored
        ),
        m.pick(["refund", "fee", "final_balance"]): m.later(
            "number",
            [float(v) if h else None for v, h in zip(m.random.integers(0, 90, rows), has)],
            stored,
        ),
    }
    late |= {m.pick(["ended_by", "handled_by"]): Column("key", [], known=stored)}
    if flags:
        late["is_active"] = m.later("flag", [not h for h in has], stored, [True] * rows)
        before = m.random.choice(
            m.pick([["running"], ["new", "running"], ["a", "b", "c"]]), rows
        ).tolist()
        ended = m.pick(["ended", "closed"])
        status = [ended if h else b for h, b in zip(has, before)]
        late["status"] = m.later("category", status, stored, before)
    names = list(late)
    for place in m.random.permutation(len(names))[: int(m.random.integers(1, len(names) + 1))]:
        column = late[names[place]]
        if column.kind == "key":
            staff = m.staff()
            column.parent = staff.name
            column.values = np.where(has, m.random.integers(0, staff.rows, rows), -1).tolist()
            names[place] += "_" + m.style.format("staff")
        name = m.put(table, names[place], column)
        m.world.facts.setdefault("along", []).append(name)
        m.world.named.add(name)


@shape("dates inside the entity", takes="leaves", leaves=(0.005, 0.02, *LEAVES))
def dates_in_entity(m: Maker) -> None:
    name, form = m.pick(END_DATES), m.odd_form()
    name = m.put(m.entities, name, m.open_ended(m.left, form))
    m.world.facts |= {"column": name, "filled": float(np.mean(m.left < NEVER))}
    m.world.named |= {m.entity, name}
    if m.chance(0.7):
        _along(m, m.entities, m.left, cut(m.left, form), flags=m.chance(0.5))
    if m.chance(0.3):  # known ahead, and harmless
        planned = m.born + 400 * DAY
        m.put(
            m.entities,
            m.pick(["renewal_on", "next_review", "valid_until"]),
            m.times(planned, "day", known=m.entities.born),
        )


@shape("dates inside parents", takes="leaves group", groups=True, leaves=(0.1, 0.3, 0.6))
def dates_in_parents(m: Maker) -> None:
    """Entities leave with what they belong to, such as a branch that closes."""
    form = m.form()
    closed = m.group_left
    count = len(closed)
    founded = cut(m.start - (m.random.random(count) * 300 * DAY).astype(np.int64), form)
    group = m.add(m.group, founded)
    m.put(
        group,
        m.pick(["founded_at", "created_at", "opened_on", "registered_on"]),
        m.times(founded, form),
    )
    form = form if m.chance(0.5) else m.odd_form()
    name = m.put(group, m.pick(END_DATES), m.open_ended(closed, form))
    if m.chance(0.6):
        _along(m, group, closed, cut(closed, form), flags=m.chance(0.5))
    m.put_key(m.entities, group, m.group_of)
    m.world.facts |= {"column": name, "filled": float(np.mean(closed < NEVER))}
    m.world.named |= {m.group, name}


@shape("dates inside events")
def dates_in_events(m: Maker) -> None:
    """An event ends when its owner comes again: the date would tell of it."""
    following = m.next_event()
    share = m.share(0.02)
    has = (following >= 0) & m.some(len(following), share)
    known = np.where(has, m.time[following], NEVER)
    form = m.event_form if m.chance(0.5) else m.odd_form()
    name = m.pick(
        [
            "returned_at",
            "closed_at",
            "paid_on",
            "completed_at",
            "resolved_at",
            "released_on",
            "delivered_at",
            "answered_at",
            "ended_at",
            "checked_out",
            "settled_on",
        ]
    )
    name = m.put(m.events, name, m.times(known, form, known=known))
    if m.chance(0.6):
        _along(m, m.events, known, cut(known, form), flags=m.chance(0.5))
    if m.chance(0.3):
        due = m.time + 14 * DAY
        m.put(
            m.events,
            m.pick(["due_on", "deadline", "expected_at"]),
            m.times(due, "day", known=m.time),
        )
    m.world.facts |= {"column": name, "share": share}
    m.world.named |= {m.event, name}


@shape("histories", takes="history")
def histories(m: Maker) -> None:
    """A row for each state of an entity, with when it began and ended; states change at events."""
    chosen = np.flatnonzero(m.some(len(m.owner), m.pick([0.3, 0.7])))
    owner, came = m.owner[chosen], m.time[chosen]
    ends = np.full(len(chosen), NEVER)
    last: dict[int, int] = {}
    for place, entity in enumerate(owner.tolist()):
        if entity in last:
            ends[last[entity]] = came[place]
        last[entity] = place
    form = m.event_form if m.event_form in ("iso", "day") else "iso"
    table = m.add(
        m.new(["tiers_held", "addresses_held", "rates_held", "stays_in_segment"]), cut(came, form)
    )
    begin, end = m.pick(
        [
            ("valid_from", "valid_to"),
            ("start_date", "end_date"),
            ("effective_from", "effective_to"),
            ("from_date", "to_date"),
            ("started_at", "ended_at"),
        ]
    )
    m.put(table, begin, m.times(came, form))
    m.put(table, end, m.open_ended(ends, form))
    if m.chance(0.5):
        m.put(
            table,
            m.pick(["is_current", "active"]),
            m.later("flag", (ends >= NEVER // 2).tolist(), cut(ends, form), [True] * len(ends)),
        )
    m.put_key(table, m.entities, owner)
    if m.chance(0.3):  # the state of today
        newest = np.full(m.count, -1)
        newest[owner] = np.arange(len(owner))
        name = m.pick(["current_{}", "active_{}", "last_{}"]).format(m.singular[table.name])
        known = np.where(newest >= 0, came[np.maximum(newest, 0)], NEVER)
        m.world.named.add(m.put_key(m.entities, table, newest, m.style.format(name), known))
    m.world.doubtful.add(table.name)
    m.world.named |= {table.name, begin, end}
    m.world.facts |= {"columns": (begin, end)}


# 7. Tables without a time under a parent that lives long.
@shape(
    "untimed rows of the entity",
    takes="leaves",
    leaves=(0.05, *LEAVES),
    birth=("clear", "clear", "none"),
)
def untimed_of_entity(m: Maker) -> None:
    gone = np.flatnonzero(m.left < NEVER)
    if len(gone) >= 5:
        name = m.new(
            ["cancellations", "terminations", "exit_interviews", "write_offs", "blacklist_entries"]
        )
        table = m.add(name, m.left[gone])
        m.put_key(table, m.entities, gone)
        if m.chance(0.4):  # identified by the entity's key
            m.drop_key(table)
        m.put(
            table,
            "reason",
            Column("category", m.random.choice(["price", "moved", "other"], len(gone)).tolist()),
        )
        m.world.doubtful.add(name)
        m.world.named |= {name}
    if m.chance(0.6):
        _profiles(m)


def _profiles(m: Maker) -> None:
    """One row for each entity, which comes with it."""
    per = np.ones(m.count, np.int64)
    more = m.share(0, 0.06)
    owner = np.repeat(np.arange(m.count), per)
    extra = np.flatnonzero(m.some(m.count, more))
    kind = m.pick(["all", "missing", "more"])
    if kind == "missing":
        owner = np.setdiff1d(owner, extra)
    if kind == "more":
        owner = np.sort(np.concatenate([owner, extra]))
    m.singular["addresses"] = "address"
    table = m.add(
        m.new(["profiles", "addresses", "preferences", "settings"]), m.entities.born[owner]
    )
    m.put_key(table, m.entities, owner)
    m.filler(table)
    if kind != "more" and m.chance(0.3):
        m.drop_key(table)
    m.world.harmless.add(table.name)
    m.world.facts |= {"profiles": kind, "more": more}


@shape("one profile each", birth=("clear", "none"))
def one_profile(m: Maker) -> None:
    _profiles(m)


@shape("several untimed rows each", birth=("clear", "none"))
def several_untimed(m: Maker) -> None:
    """Complaints, contacts, documents: one with some events, and no time at all."""
    chosen = np.flatnonzero(m.some(len(m.owner), m.pick([0.1, 0.4, 1.0])))
    name = m.new(["complaints", "contacts", "documents", "phone_calls", "warnings", "awards"])
    table = m.add(name, m.time[chosen])
    m.put_key(table, m.entities, m.owner[chosen])
    if m.chance(0.4):
        lookups = m.add("kinds_of_" + name, np.full(6, ALWAYS))
        m.put_key(table, lookups, m.random.integers(0, 6, table.rows))
    m.world.doubtful.add(name)
    m.world.named |= {name}


@shape("favourites", takes="lines", birth=("clear", "clear", "none"))
def favourites(m: Maker) -> None:
    """Pairs of two things that live long, made with some events."""
    products = _products(m, int(m.random.integers(30, 200)))
    m.put_key(m.events, products, _chosen_products(m, products, m.time))
    chosen = np.flatnonzero(m.some(len(m.owner), m.pick([0.3, 0.7, 1.0])))
    table = m.add(
        m.new(["favourites", "wishes", "assignments", "permissions", "enrolments"]), m.time[chosen]
    )
    m.put_key(table, m.entities, m.owner[chosen])
    m.put_key(table, products, _chosen_products(m, products, m.time[chosen]))
    m.world.doubtful.add(table.name)
    m.world.named |= {table.name}
    m.world.facts["products"] = "timeless" if products.born[0] == ALWAYS else "launched"


@shape("early lines", takes="lines")
def early_lines(m: Maker) -> None:
    """Lines with a time of their own that come before the invoice which names them."""
    per = np.repeat(np.arange(len(m.owner)), m.random.integers(1, 3, len(m.owner)))
    early = m.some(len(per), m.share(0.1))
    born = np.where(early, m.time[per] - m.random.integers(60, 5 * DAY, len(per)), m.time[per])
    born = np.maximum(born, m.born[m.owner[per]])
    form = m.event_form if m.event_form in ("iso", "t") else "iso"
    table = m.add(m.line, born)
    m.put(table, m.pick(["created_at", "date", "added_at", "recorded_at"]), m.times(born, form))
    m.put_key(table, m.events, per)
    if m.chance(0.5):
        m.put_key(table, m.entities, m.owner[per])
    m.world.is_fair = False  # a line announces its invoice
    m.world.harmless.add(m.line)


@shape("votes cut to days", takes="lines")
def votes_by_day(m: Maker) -> None:
    event = m.random.integers(0, len(m.owner), min(6000, len(m.owner)))
    wait = m.random.exponential(m.pick([0.2, 2, 20]) * DAY, len(event)).astype(np.int64)
    came = cut(m.time[event] + wait, "day")
    came = np.minimum(came, cut(np.array(m.end), "day"))
    form = m.pick(["day", "iso"])
    table = m.add(m.new(["votes", "likes", "stamps", "receipts"]), came)
    m.put(table, m.pick(["creation_date", "date", "created_on", "voted_on"]), m.times(came, form))
    m.put_key(table, m.events, event)
    if m.chance(0.5):
        m.put_key(table, m.entities, m.one_of(came))
    m.world.harmless.add(table.name)


@shape("one load date for all")
def one_load_date(m: Maker) -> None:
    """Details that came with events, with nothing but the date of a load."""
    chosen = np.flatnonzero(m.some(len(m.owner), m.pick([0.4, 1.0])))
    how = m.pick(["begin", "begin", "middle", "end", "two loads"])
    place = {"begin": 0.0, "middle": 0.5, "end": 1.0, "two loads": 1.0}[how]
    loaded = np.full(len(chosen), m.start + int(place * m.days * DAY))
    if how == "two loads":
        first = m.start + int(0.6 * m.days * DAY)
        loaded[m.time[chosen] < first] = first
    name = m.new(["details", "extras", "notes_taken", "line_facts"])
    table = m.add(name, m.time[chosen])
    column = m.put(
        table,
        m.pick(["loaded_at", "created_at", "import_date", "inserted_on", "timestamp"]),
        m.times(loaded, m.form()),
    )
    keys = m.pick(["event", "event", "entity", "both"])
    if keys != "entity":
        m.put_key(table, m.events, chosen)
    if keys != "event":
        m.put_key(table, m.entities, m.owner[chosen])
    m.world.doubtful.add(name)
    m.world.named |= {name, column}
    m.world.facts |= {"how": how, "keys": keys}


@shape("coupons that are used later")
def coupons(m: Maker) -> None:
    """Made early, with a time or without; the event that used them is written in afterwards."""
    share = m.pick([0.1, 0.3, 0.45, 0.55, 0.7, 0.9, 0.97, 1.0])
    owner = m.random.integers(0, m.count, len(m.owner) // 2)
    born = m.within(owner)
    event = np.where(m.some(len(owner), share), m.event_after(owner, born), -1)
    is_timed = m.chance(0.5)
    name = m.new(["coupons", "vouchers_issued", "tickets_sold", "credits"])
    table = m.add(name, born)
    if is_timed:
        m.put(table, m.pick(["issued_at", "created_at", "date"]), m.times(born, "iso"))
    key = m.style.format("used_in_" + m.singular[m.event].lower())
    known = np.where(event >= 0, m.time[event], NEVER)
    key = m.put_key(table, m.events, event, m.pick([key, ""]), known)
    m.put_key(table, m.entities, owner)
    m.world.doubtful.add(name)
    m.world.named |= {name, key}
    m.world.facts |= {"used": share, "timed": is_timed}


@shape("keys of lines that are filled later", takes="lines")
def later_keys(m: Maker) -> None:
    """Lines of an event, and where they came back, which is when the owner comes again."""
    following = m.next_event()
    share = m.pick([0.02, 0.04, 0.06, 0.2, 0.45, 0.55, 0.8, 0.97])
    is_back = (following >= 0) & m.some(len(following), share)
    back = np.flatnonzero(is_back)
    form = m.event_form
    returns = m.add(
        m.new(["returns", "revisions", "transfers", "refunds"]), m.time[following[back]]
    )
    m.put(returns, m.pick(["created_at", "date", "recorded_at"]), m.times(returns.born, form))
    if m.chance(0.6):
        m.put_key(returns, m.entities, m.owner[back])
    number = np.full(len(following), -1)
    number[back] = np.arange(len(back))
    line_of = np.repeat(np.arange(len(m.owner)), m.random.integers(1, 3, len(m.owner)))
    lines = m.add(m.line, m.time[line_of])
    m.put_key(lines, m.events, line_of)
    known = np.where(is_back, m.time[np.maximum(following, 0)], NEVER)
    key = m.put_key(lines, returns, number[line_of], known=known[line_of])
    if m.chance(0.5):
        m.put_key(lines, m.entities, m.owner[line_of])
    m.world.facts |= {"filled": share, "key": key}
    m.world.doubtful.add(m.line)
    m.world.named |= {m.line, key}


@shape("an end in a table of its own", takes="leaves", leaves=LEAVES)
def end_in_own_table(m: Maker) -> None:
    """One row for each entity, which has no time but the date of the end."""
    table = m.add(m.new(["details_held", "memberships", "statuses", "agreements"]), m.entities.born)
    m.singular[table.name] = "status" if table.name == "statuses" else table.name[:-1]
    m.put_key(table, m.entities, np.arange(m.count))
    form = m.odd_form()
    name = m.put(table, m.pick(END_DATES), m.open_ended(m.left, form))
    if m.chance(0.5):
        _along(m, table, m.left, cut(m.left, form), flags=m.chance(0.5))
    if m.chance(0.3):
        m.drop_key(table)
    m.world.doubtful.add(table.name)
    m.world.named |= {table.name, name}
    m.world.facts |= {"column": name, "filled": float(np.mean(m.left < NEVER))}


@shape("participants", takes="question", birth=("clear", "clear", "none"))
def participants(m: Maker) -> None:
    """Entities take part in events by a table of pairs."""
    guests = m.random.integers(1, 4, len(m.owner))
    event = np.repeat(np.arange(len(m.owner)), guests)
    first = np.cumsum(guests) - guests
    # the host, and others who are there; only the host's place says who made the event
    who = m.one_of(m.time[event])
    who[first] = m.owner
    gap = m.share(0, 0.2)
    table = m.add(m.new(["participants", "attendances", "crews", "roles"]), m.time[event])
    is_gap = m.some(table.rows, gap)
    to_event = m.put_key(table, m.events, m.gaps(event, is_gap, m.pick(["empty", "dangling"])))
    to_entity = m.put_key(table, m.entities, who)
    if m.chance(0.5):
        m.drop_key(table)
    if m.chance(0.6):
        m.ask(table.name, (to_entity,), (to_event,), m.event_time)
    m.world.facts["gap"] = gap
    m.world.doubtful.add(table.name)
    m.world.named |= {table.name, to_event}


# Beyond the rules of today.
@shape("overwritten dates", takes="beyond")
def overwritten_dates(m: Maker) -> None:
    """The last visit or change of an entity, written anew with every event."""
    last = m.last_event()
    when = np.where(last >= 0, m.time[last] + m.random.integers(0, 600, m.count), NEVER)
    form = m.form()
    name = m.pick(["last_seen_at", "updated_at", "last_login", "modified_on", "last_activity"])
    name = m.put(m.entities, name, m.times(when, form, known=when))
    m.world.facts["column"] = name
    m.world.named |= {name}


@shape("overwritten counts", takes="beyond")
def overwritten_counts(m: Maker) -> None:
    count = np.bincount(m.owner, minlength=m.count)
    last = m.last_event()
    known = np.where(count > 0, m.time[last], ALWAYS)
    name = m.pick(["number_of_{}", "{}_count", "total_{}"]).format(m.event.lower())
    name = m.put(m.entities, name, Column("number", count.astype(float).tolist(), known=known))
    m.world.named |= {name}


@shape("a state without a date", takes="beyond leaves", leaves=LEAVES)
def state_without_date(m: Maker) -> None:
    has = m.left < NEVER
    column = m.later("flag", (~has).tolist(), m.left, [True] * m.count)
    m.world.named |= {m.put(m.entities, m.pick(["is_active", "enabled"]), column)}


@shape("sums of a period by its first day", takes="beyond")
def period_sums(m: Maker) -> None:
    """What happened in a period, dated by its first day and known at its last."""
    days = m.pick([7, 30])
    period = (m.time - m.start) // (days * DAY)
    pairs = np.unique(m.owner * 100_000 + period)
    owner, period = pairs // 100_000, pairs % 100_000
    begin = m.start + period * days * DAY
    table = m.add(m.new(["statements"]), begin + days * DAY)
    m.put(table, m.pick(["month", "period_start", "date"]), m.times(begin, "day"))
    m.put_key(table, m.entities, owner)
    m.world.doubtful.add(table.name)


@shape("untimed rows that follow an event", takes="beyond")
def untimed_after_event(m: Maker) -> None:
    """Reviews of an order that are written when its owner comes again."""
    following = m.next_event()
    chosen = np.flatnonzero((following >= 0) & m.some(len(following), m.pick([0.2, 0.6])))
    table = m.add(m.new(["reviews", "refunds", "reminders"]), m.time[following[chosen]])
    m.put_key(table, m.events, chosen)
    m.world.doubtful.add(table.name)
    m.world.named |= {table.name}
