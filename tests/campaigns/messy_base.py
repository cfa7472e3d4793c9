"""The business that every messy database begins with: entities, and the events that are predicted.

Events of an entity are a Poisson process with one rate for all: whether one comes in the next
window is a coin flip that nothing knows beforehand, whatever came before. Shapes
(`messy_shapes.py`) add tables and columns, most of them made of the events to come.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from campaigns.messy_world import (
    ALWAYS,
    DANGLING,
    DAY,
    EPOCHS,
    NEVER,
    SOURCES,
    Column,
    Question,
    Random,
    Table,
    Times,
    World,
    cut,
    moment,
)

# entity, event, line of an event, product, lookup, what entities belong to: plural, singular
THEMES = (
    "guests guest stays stay stay_charges stay_charge services service countries country "
    "agencies agency",
    "patients patient visits visit prescriptions prescription drugs drug wards ward "
    "insurers insurer",
    "members member workouts workout workout_sets workout_set machines machine levels level "
    "clubs club",
    "readers reader loans loan loaned_items loaned_item books book genres genre branches branch",
    "machines machine alarms alarm alarm_parts alarm_part parts part models model sites site",
    "borrowers borrower repayments repayment repayment_parts repayment_part plans plan "
    "regions region brokers broker",
    "pupils pupil absences absence absence_notes absence_note courses course grades grade "
    "schools school",
    "customers customer orders order order_lines order_line products product channels channel "
    "shops shop",
    "clients client tickets ticket ticket_actions ticket_action articles article topics topic "
    "resellers reseller",
    "households household faults fault fault_parts fault_part devices device districts district "
    "providers provider",
    "holders holder claims claim claim_positions claim_position repairs repair tariffs tariff "
    "agents agent",
    "drivers driver trips trip trip_stops trip_stop depots depot cities city carriers carrier",
    "animals animal treatments treatment doses dose medicines medicine species_list species "
    "owners owner",
    "sensors sensor readings reading reading_values reading_value probes probe kinds kind "
    "gateways gateway",
    "accounts account payments payment payment_lines payment_line features feature tiers tier "
    "vendors vendor",
    "farms farm harvests harvest lots lot crops crop soils soil cooperatives cooperative",
    "Students Student Exams Exam ExamParts ExamPart Modules Module Degrees Degree Colleges College",
    "donors donor donations donation pledges pledge campaigns campaign causes cause "
    "chapters chapter",
)
EVENT_TIMES = (
    *("created_at", "date", "timestamp", "ts", "recorded_at", "placed_at", "started_at"),
    *("{event}_date", "{event}_time", "entered_on", "opened_at", "time", "datetime", "occurred_at"),
)
BIRTHS = (
    *("created_at", "registered_on", "joined_at", "signup_date", "member_since", "opened_on"),
    *("created", "registration_date", "date_joined", "added_on", "start_date", "entrydate"),
)
SHARES = (0.0, 0.001, 0.005, 0.01, 0.019, 0.021, 0.03, 0.04, 0.06, 0.1, 0.2, 0.45, 0.55, 0.8)
TAGS = ("amount", "score", "weight", "value", "price", "points", "total", "level_value")
WORDS = ("red", "green", "blue", "north", "south", "basic", "plus", "gold", "new", "old", "web")
FAR = 253_402_214_400  # 9999-12-31
LONG_AGO = -2_208_988_800  # 1900-01-01
ODD_FORMS = ("us", "digits", "epoch f")  # that a reader may not take for times
PLAIN_FORMS = ("iso", "iso", "iso", "t", "z", "zone")


class Maker:
    """Builds a world: the entities and their events, and what shapes ask it for."""

    def __init__(self, random: Random, needs: dict[str, Any]) -> None:
        self.random, self.needs, self.world = random, needs, World()
        words = THEMES[random.integers(len(THEMES))].split()
        self.entity, self.event, self.line, self.product, self.lookup, self.group = words[::2]
        self.singular = dict(zip(words[::2], words[1::2]))
        self.style = self.pick(["{}_id"] * 6 + ["{}Id", "{}_id"])
        self.key_name = self.pick(["id", "id", "{}_id"])
        self.window = 0
        self._time()
        self._entities()
        self._events()

    def surroundings(self) -> None:
        """What a database has besides, and what nothing is wrong with; behind all shapes."""
        world = self.world
        if self.chance(0.3):
            self._other_events()
        if self.group not in world.tables and self.chance(0.25):
            count = int(self.random.integers(5, 60))
            founded = self.start - (self.random.random(count) * 900 * DAY).astype(np.int64)
            parent, form = self.add(self.group, cut(founded, self.form())), "iso"
            self.put(parent, self.pick(["founded_at", "created_at"]), self.times(parent.born, form))
            self.put_key(self.entities, parent, self.random.integers(0, count, self.count))
        if self.chance(0.25):
            staff = self.staff()
            self.put_key(self.events, staff, self.random.integers(0, staff.rows, len(self.owner)))

    def _other_events(self) -> None:
        owner = self.random.integers(0, self.count, int(self.random.integers(200, 3000)))
        came, form = self.within(owner), self.form()
        table = self.add(
            self.new(["newsletters", "logins_seen", "letters", "checks"]), cut(came, form)
        )
        self.put(
            table, self.pick(["created_at", "date", "sent_at", "timestamp"]), self.times(came, form)
        )
        self.put_key(table, self.entities, owner)
        self.world.harmless.add(table.name)

    # What is drawn.
    def pick(self, options: Sequence[Any]) -> Any:
        return options[self.random.integers(len(options))]

    def chance(self, share: float) -> bool:
        return bool(self.random.random() < share)

    def share(self, least: float = 0.0, most: float = 1.0) -> float:
        return float(self.pick([s for s in SHARES if least <= s <= most]))

    def some(self, rows: int, share: float) -> NDArray[np.bool_]:
        """(rows,) a share of them, as exactly as whole rows allow, drawn at random."""
        chosen = np.zeros(rows, bool)
        chosen[self.random.permutation(rows)[: round(share * rows)]] = True
        return chosen

    def form(self, epochs: float = 0.0, days: float = 0.15) -> str:
        draw = self.random.random()
        if draw < epochs:
            return str(self.pick(list(EPOCHS)))
        if draw < epochs + days:
            is_text = self.world.source in ("csv", "sqlite")
            return str(self.pick(["day", "day", "dotted", "slashed"] if is_text else ["day"]))
        return str(self.pick(PLAIN_FORMS))

    # The business.
    def _time(self) -> None:
        random = self.random
        self.world.source = str(self.pick(SOURCES))
        self.world.is_declared = self.world.source == "sqlite" and self.chance(0.6)
        self.count = int(random.integers(250, 600))
        self.days = int(random.integers(350, 800))
        first = datetime(int(random.integers(2008, 2024)), int(random.integers(1, 13)), 1)
        self.start = int((first - datetime(1970, 1, 1)).total_seconds())
        self.start += int(random.integers(DAY)) * self.pick([0, 1])
        self.end = self.start + self.days * DAY
        windows = [w for w in (7, 10, 14, 21, 30, 45, 60) if 9 * w < self.days]
        least = self.count * self.days * np.log(2) / 9000
        self.window = int(self.pick([w for w in windows if w >= least] or windows[-1:]))

    def _entities(self) -> None:
        random, n = self.random, self.count
        spread = self.needs.get("spread", float(self.pick([0.0, 0.2, 0.3, 0.4, 0.5, 0.6])))
        self.born = (self.start + random.random(n) * spread * self.days * DAY).astype(np.int64)
        if self.needs.get("birth", "clear") == "none":
            self.born[:] = self.start
        self.left = np.full(n, NEVER)
        if leaves := self.needs.get("leaves"):
            self._leave(leaves)
        is_timeless = self.needs.get("birth", "clear") == "none"
        born = np.full(n, ALWAYS) if is_timeless else self.born
        table = self.add(self.entity, born, is_kept=True)
        if self.needs.get("birth", "clear") == "clear":
            form = self.form(epochs=0.08)
            table.born[:] = cut(table.born, form)
            self.put(table, self.pick(BIRTHS), self.times(table.born, form))
            self.world.shown = table.born
        for _ in range(int(random.integers(0, 3))):
            self.filler(table)
        if self.chance(0.4):
            parent = self.add(self.lookup, np.full(int(random.integers(3, 12)), ALWAYS))
            self.filler(parent)
            self.put_key(table, parent, random.integers(0, parent.rows, n))

    def _leave(self, share: float) -> None:
        """Entities leave at a constant rate, each for itself or all of a group at once."""
        has_groups, n = self.needs.get("groups", False), self.count
        begin = np.full(max(60, n // 3), self.start) if has_groups else self.born
        scale = -(self.end - begin).mean() / np.log(1 - share)
        left = begin + 2 * DAY + self.random.exponential(scale, len(begin)).astype(np.int64)
        left = np.where(left < self.end, left, NEVER)
        if not has_groups:
            self.left = left
            return
        self.group_left, self.group_of = left, self.random.integers(0, len(left), n)
        self.left = left[self.group_of]
        known = np.minimum(self.left, self.end) - self.start
        self.born = np.minimum(
            self.born, self.start + (self.random.random(n) * known / 2).astype(np.int64)
        )

    def _events(self) -> None:
        random = self.random
        rate = np.log(2) / (self.window * DAY)
        once = self.needs.get("once")
        owners, times = [], []
        for entity in range(self.count):
            time, first = int(self.born[entity]), True
            is_once = once is not None and random.random() < once
            while True:
                wait = random.exponential(1 / rate) * (4 if once is not None and first else 1)
                time += max(60, int(wait))
                if time >= min(self.end, self.left[entity]):
                    break
                owners.append(entity)
                times.append(time)
                first = False
                if is_once:
                    break
        owner, time_ = np.array(owners, np.int64), np.array(times, np.int64)
        form = self.form(epochs=0.08)
        time_ = cut(time_, form)
        order = np.argsort(time_, kind="stable")
        self.owner, self.time = owner[order], time_[order]
        self.event_form = form
        self.event_time = self.pick(EVENT_TIMES).format(event=self.singular[self.event].lower())
        self._add_events()

    def _add_events(self) -> None:
        table = self.add(self.event, self.time.copy(), is_kept=True)
        self.put(table, self.event_time, self.times(self.time, self.event_form))
        self.event_key = self.put_key(table, self.world.tables[self.entity], self.owner)
        self.filler(table)

    def drop_events(self, kept: NDArray[np.bool_]) -> None:
        """Rows of the events that are archived; before any other table names them."""
        self.owner, self.time = self.owner[kept], self.time[kept]
        self._add_events()

    # What shapes ask for.
    @property
    def entities(self) -> Table:
        return self.world.tables[self.entity]

    @property
    def events(self) -> Table:
        return self.world.tables[self.event]

    def next_event(self) -> NDArray[np.int64]:
        """(events,) the row of the owner's next event, -1 for none."""
        following = np.full(len(self.owner), -1)
        last: dict[int, int] = {}
        for row, owner in enumerate(self.owner.tolist()):
            if owner in last:
                following[last[owner]] = row
            last[owner] = row
        return following

    def event_after(self, owner: NDArray[np.int64], times: Times) -> NDArray[np.int64]:
        """(rows,) the first event of an entity after a time, -1 for none."""
        rows = [np.flatnonzero(self.owner == entity) for entity in range(self.count)]
        found = []
        for entity, time in zip(owner.tolist(), times.tolist()):
            place = np.searchsorted(self.time[rows[entity]], time, "right")
            found.append(int(rows[entity][place]) if place < len(rows[entity]) else -1)
        return np.array(found, np.int64)

    def one_of(self, times: Times) -> NDArray[np.int64]:
        """(rows,) an entity for each time, one that is there."""
        order = np.argsort(self.born, kind="stable")
        there = np.searchsorted(self.born[order], times, "right")
        found: NDArray[np.int64] = order[
            (self.random.random(len(times)) * np.maximum(there, 1)).astype(int)
        ]
        return found

    def last_event(self) -> NDArray[np.int64]:
        """(entities,) the row of the newest event, -1 for none."""
        last = np.full(self.count, -1)
        last[self.owner] = np.arange(len(self.owner))  # in the order of time
        return last

    def first_named(self) -> Times:
        """(entities,) when an event first names each; NEVER for none."""
        first = np.full(self.count, NEVER)
        values = self.events.columns[self.event_time].values[: len(self.owner)]
        has_time = np.array([value is not None for value in values], bool)
        np.minimum.at(first, self.owner[has_time], self.time[has_time])
        return first

    def within(self, owner: NDArray[np.int64]) -> Times:
        """Times at random in the lives of some entities."""
        begin = self.born[owner]
        end = np.minimum(self.left[owner], self.end)
        return (begin + self.random.random(len(owner)) * np.maximum(end - begin, 1)).astype(
            np.int64
        )

    def add(self, name: str, born: Times, *, key: str = "", is_kept: bool = False) -> Table:
        """A table with a primary key and its tag."""
        singular = self.singular.setdefault(name, name.removesuffix("s"))
        key = key or self.key_name.format(singular.lower())
        tag = str(self.pick(TAGS))
        rows = len(born)
        tags = (self.random.permutation(rows) * 3 + self.random.integers(1, 3, rows)) / 8
        columns = {key: Column("key", []), tag: Column("number", tags.tolist())}
        table = Table(name, key, tag, np.array(born, np.int64), columns)
        self.world.tables[name] = table
        return table

    def new(self, names: Sequence[str]) -> str:
        """A name for a table, one that is free."""
        free = [n for n in names if n.lower() not in {t.lower() for t in self.world.tables}]
        return str(self.pick(free)) if free else f"more_{names[0]}"

    def drop_key(self, table: Table) -> None:
        """No primary key: only other columns tell rows apart."""
        if any(
            c.parent == table.name for t in self.world.tables.values() for c in t.columns.values()
        ):
            return
        table.columns.pop(table.key, None)

    def put(self, table: Table, name: str, column: Column) -> str:
        """A column under a name that is free."""
        while name.lower() in {c.lower() for c in table.columns}:
            name += "_2"
        table.columns[name] = column
        return name

    def put_key(
        self,
        table: Table,
        parent: Table,
        rows: NDArray[np.int64],
        name: str = "",
        known: Times | None = None,
    ) -> str:
        name = name or self.style.format(self.singular[parent.name].lower())
        column = Column("key", np.asarray(rows).tolist(), parent.name, known=known)
        return self.put(table, name, column)

    def filler(self, table: Table) -> None:
        """A column of no meaning."""
        rows = table.rows
        if self.chance(0.5):
            words = self.random.choice(WORDS, int(self.random.integers(2, 5)), replace=False)
            values: list[Any] = self.random.choice(words, rows).tolist()
            self.put(
                table,
                str(self.pick(["type", "segment", "class", "state", "colour"])),
                Column("category", values),
            )
        else:
            values = np.round(self.random.normal(50, 20, rows), 1).tolist()
            holes = self.some(rows, self.share(0, 0.2))
            values = [None if hole else v for v, hole in zip(values, holes)]
            self.put(
                table,
                str(self.pick(["size", "rate", "index", "age", "distance"])),
                Column("number", values),
            )

    def times(
        self,
        times: Times,
        form: str,
        filled: NDArray[np.bool_] | None = None,
        known: Times | None = None,
    ) -> Column:
        """A column of times, cut to their form; empty where they are NEVER or not `filled`."""
        times = cut(times, form)
        is_filled = np.abs(times) < NEVER // 2
        if filled is not None:
            is_filled &= filled
        values = [t if f else None for t, f in zip(times.tolist(), is_filled.tolist())]
        return Column("time", values, form=form, known=None if known is None else cut(known, form))

    def open_ended(self, times: Times, form: str) -> Column:
        """A column of ends; what has none is empty, or ends in the year 9999 or in 1900."""
        column = self.times(times, form, known=times)
        if form in ("iso", "day") and self.chance(0.3):
            none = self.pick([FAR, LONG_AGO])
            column.values = [none if v is None else v for v in column.values]
            column.before = [none] * len(times)
            self.world.facts["none"] = "9999" if none == FAR else "1900"
        return column

    def odd_form(self) -> str:
        """A form of times inside rows, at times one that is hard to tell."""
        form = str(self.pick(ODD_FORMS)) if self.chance(0.15) else self.form(epochs=0.1)
        self.world.facts["form"] = form
        return form

    def staff(self) -> Table:
        """A table of people, without times."""
        if "staff" not in self.world.tables:
            self.filler(self.add("staff", np.full(8, ALWAYS)))
        return self.world.tables["staff"]

    def later(
        self, kind: str, values: list[Any], known: Times, before: list[Any] | None = None
    ) -> Column:
        """A column whose values come to be at some times; NEVER: they are as they were before."""
        return Column(kind, values, known=known, before=before)

    def gaps(
        self, rows: NDArray[np.int64], is_gap: NDArray[np.bool_], kind: str
    ) -> NDArray[np.int64]:
        """Keys of which some are empty, or name rows that are not there."""
        gap = {"empty": np.full(len(rows), -1), "dangling": np.full(len(rows), DANGLING)}
        mixed = np.where(self.random.random(len(rows)) < 0.5, -1, DANGLING)
        return np.where(is_gap, gap.get(kind, mixed), rows)

    def _anonymous_events(self) -> None:
        """Events of nobody, or of entities that were deleted."""
        table, share = self.events, self.pick([0.01, 0.04, 0.06, 0.2])
        like = self.random.integers(0, table.rows, max(1, int(share * table.rows)))
        for name, column in table.columns.items():
            if name == table.key:
                continue
            values = [column.values[row] for row in like.tolist()]
            if name == table.tag:
                values = [max(column.values) + n for n in range(1, len(like) + 1)]
            elif name == self.event_key:
                values = self.random.choice([-1, DANGLING], len(like)).tolist()
            elif column.known is not None:
                values = [-1 if column.kind == "key" else None] * len(like)
                column.known = np.concatenate([column.known, table.born[like]])
                if column.before is not None:
                    column.before = [*column.before, *values]
            column.values = [*column.values, *values]
        table.born = np.concatenate([table.born, table.born[like]])
        self.world.facts["anonymous"] = share

    def _has_doubtful_date(self) -> bool:
        """Whether an entity that was always there has a date, or names something that has one."""
        columns = self.entities.columns.values()
        parents = [self.world.tables[c.parent] for c in columns if c.parent]
        return any(c.kind == "time" for t in (self.entities, *parents) for c in t.columns.values())

    # What is asked.
    def ask(
        self,
        table: str = "",
        owner: tuple[str, ...] = (),
        moment_: tuple[str, ...] = (),
        time: str = "",
        entity: str = "",
        value: str = "",
        form: str = "",
    ) -> None:
        table, entity = table or self.event, entity or self.entity
        form = form or self.pick(["exists", "exists", "none"])
        key = self.world.tables[entity].key
        aggregate = f"SUM({table}.{value}" if form == "sum" else f"COUNT({table}.*"
        ending = {"exists": " > 0", "none": " = 0"}.get(form, "")
        sentence = f"PREDICT {aggregate}, 0, {self.window}, days){ending} FOR EACH {entity}.{key}"
        self.world.question = Question(
            sentence,
            entity,
            table,
            owner or (self.event_key,),
            moment_,
            time or self.event_time,
            value,
            form,
            self.window,
        )

    def finish(self, shapes: tuple[str, ...]) -> World:
        """The world, its columns in any order."""
        world, random = self.world, self.random
        self.surroundings()
        if len(np.unique(self.entities.born)) == 1 and self._has_doubtful_date():
            world.unclear.add(self.entity)
        if self.entity in world.unclear:  # events that are cut to days come before
            self.entities.born = np.minimum(self.entities.born, self.first_named())
        if self.chance(0.2) and self.event_key in self.events.columns:
            self._anonymous_events()
        world.harmless |= {self.event}
        if world.question is None:
            if self.chance(0.15):
                self.ask(value=self.events.tag, form=self.pick(["sum", "count"]))
            else:
                self.ask()
        for table in world.tables.values():
            names = list(table.columns)
            if self.chance(0.6):
                rest = names[1:]
                random.shuffle(rest)
                names = [names[0], *rest]
            else:
                random.shuffle(names)
            table.columns = {name: table.columns[name] for name in names}
        if self.chance(0.5) and not self.needs.get("once"):  # which leaves few events
            val = self.start + int(self.days * random.uniform(0.62, 0.7)) * DAY
            val += int(random.integers(DAY)) * self.pick([0, 0, 1])
            test = val + (self.window * int(random.integers(1, 3)) + 3) * DAY
            first = int(self.time[0]) + 4 * self.window * DAY
            if first < val and test + self.window * DAY < self.end - 3 * DAY:
                world.splits = {"val": str(moment(val)), "test": str(moment(test))}
        world.shapes, world.first_named = shapes, self.first_named()
        if world.stratum is None:
            left, born = self.left, self.born
            world.stratum = lambda time: np.where((left > time) & (born <= time), 0, -1)
        return world
