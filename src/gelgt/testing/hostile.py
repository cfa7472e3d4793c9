"""What the demo shop's time-travel tests do to the rows after a time: remove them, or make them as
hostile as they can be."""

from gelgt.demo.schema import TABLES

TIMES = {name: table.time_column for name, table in TABLES.items() if table.time_column}
# New categories, extreme numbers, fractions among whole numbers, text among numbers.
HOSTILE = (
    "UPDATE customers SET country = 'Atlantis ' || id, birth_year = 1999.5 WHERE signed_up_at > :t",
    "UPDATE orders SET channel = 'teleport', shipping_fee = 1e12, coupon = 'X' || id WHERE "
    "placed_at > :t",
    "UPDATE order_items SET quantity = 1000000, unit_price = -1e9 WHERE ordered_at > :t",
    "UPDATE page_pings SET latency_ms = 'n/a', status_code = id WHERE pinged_at > :t",
    "UPDATE support_tickets SET subject = 'no such ' || id, body = 'b' || id WHERE opened_at > :t",
    "UPDATE visits SET device = 'fridge ' || id, seconds = NULL WHERE visited_at > :t",
)
