"""Where attention goes: its share by table and by hop, beside the share of the rows, and the
weights of the two branches."""

from gelgt.report.charts import shares
from gelgt.report.html import Section, escape, figure, figures, legend, note
from gelgt.report.numbers import count, percent
from gelgt.report.run import Run

MOST = 12


def section(run: Run) -> Section:
    title = "Where attention goes"
    aid = (
        "A table with a larger share of attention than of rows matters more to the model than "
        "its size alone explains."
    )
    attention = run.profile.attention if run.profile else None
    fusion = _fusion(run.profile.fusion) if run.profile and run.profile.fusion is not None else ""
    if attention is None or not (attention.by_table or attention.by_hop):
        missing = (
            "profile.json is not in the run folder"
            if run.profile is None
            else "profile.json holds no shares of attention"
        )
        return Section("attention", title, aid, note(f"Left out: {missing}.") + fusion)
    key = legend([("share of attention", 0, "box"), ("share of rows", 2, "box")])
    pictures = []
    if attention.by_table:
        rows = _largest(attention.by_table, attention.rows_by_table)
        pictures.append(figure("By table", shares("Share of attention by table", rows), "", key))
    if attention.by_hop:
        hops = sorted(
            attention.by_hop, key=lambda h: (not h.isdigit(), int(h) if h.isdigit() else 0, h)
        )
        named = [(_hop_word(h), attention.by_hop[h], attention.rows_by_hop.get(h)) for h in hops]
        pictures.append(figure("By hop", shares("Share of attention by hop", named), "", key))
    seeds = (
        f"Attention of the seed, averaged over heads, layers and {count(attention.seeds)} seeds."
        if attention.seeds
        else ""
    )
    return Section(
        "attention",
        title,
        aid,
        figures(pictures) + (f'<p class="small">{seeds}</p>' if seeds else "") + fusion,
    )


def _largest(
    attention: dict[str, float], rows: dict[str, float]
) -> list[tuple[str, float, float | None]]:
    """The tables with the most attention; the others as one row."""
    order = sorted(attention, key=lambda t: (-attention[t], t))
    shown: list[tuple[str, float, float | None]] = [(t, attention[t], rows.get(t)) for t in order]
    if len(shown) <= MOST:
        return shown
    rest = order[MOST - 1 :]
    left = sum(rows.get(t, 0.0) for t in rest) if rows else None
    return [
        *shown[: MOST - 1],
        (f"{len(rest)} other tables", sum(attention[t] for t in rest), left),
    ]


def _hop_word(hop: str) -> str:
    return {
        "0": "hop 0, the seed itself",
        "1": "hop 1, rows linked to it",
        "2": "hop 2, rows linked to those",
    }.get(hop, f"hop {hop}")


def _fusion(share: float) -> str:
    """The learned weights of the two branches as one bar."""
    parts = [(0, share, "Gaussian attention"), (4, 1 - share, "graph network")]
    bar = "".join(
        f'<span class="c{c}" style="flex:{s:.3f}">{percent(s) if s >= 0.08 else ""}</span>'
        for c, s, _ in parts
    )
    key = legend((name, c, "box") for c, _, name in parts)
    words = " and ".join(f"{percent(s)} from the {escape(name)} branch" for _, s, name in parts)
    return (
        f'<h3>Fusion of the two branches</h3>{key}<div class="split">{bar}</div><p '
        f'class="small">The seed vector is {words}.</p>'
    )
