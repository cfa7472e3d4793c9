"""`gelgt explain` of a run that recommends: why these rows."""

from pathlib import Path
from typing import TYPE_CHECKING

from gelgt.cli.output import note, print_json, say
from gelgt.errors import GelgtError

if TYPE_CHECKING:
    from gelgt.explain.items import ItemsExplanation
    from gelgt.inference import Predictor

REASONS = 4  # of each that are printed


def explain_lists(
    predictor: "Predictor",
    entity: str | None,
    at: str | None,
    out: Path | None,
    as_json: bool,
    new_only: bool = False,
) -> None:
    """Print or write why the first recommendations of one entity are what they are."""
    from gelgt.explain.item_reasons import explain_list

    if entity is None:
        raise GelgtError(
            "not_explained",
            "Of a run that recommends, the lists of one entity at a time are explained.",
            hint="Give one --entity and --at, without --counterfactual.",
        )
    why = explain_list(predictor, entity, at, new_only=new_only)
    if out is not None:
        why.save(out)
    if as_json:
        print_json(why.to_dict() | {"out": None if out is None else str(out)})
        return
    for text in why.notices:
        note(f"note: {text}")
    _print(why)
    if out is not None:
        say("", f"written to {out}")


def _print(why: "ItemsExplanation") -> None:
    say(f"{why.table} {why.entity} at {why.at}: the first rows of {why.destination}, and why", "")
    for item in why.items:
        say(f"{item.rank}. {item.key}  score {item.score:.3f}")
        if not item.reasons:
            say("     no path leads to it: it is alike by its columns alone")
        for reason in item.reasons[:REASONS]:
            say(f"     {reason.text}")
            say(*(f"         {walk}" for walk in reason.shown_walks[:1]))
    if not why.items:
        say("nothing is recommended")
