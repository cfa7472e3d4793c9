"""`gelgt explain`: why a run predicts what it does, for one entity, for many, or as a whole."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gelgt.cli.bundle import bundled
from gelgt.cli.explain_items import explain_lists
from gelgt.cli.lean import load_deferred
from gelgt.cli.options import JsonFlag, RunOptions
from gelgt.cli.output import note, print_json, print_table, say
from gelgt.cli.predict_options import (
    AtOption,
    EntitiesOption,
    FrameOption,
    frame_of,
    listed_keys,
)
from gelgt.errors import GelgtError

if TYPE_CHECKING:
    from gelgt.explain import Explainer, Explanation

SHOWN = 12  # effects that are printed
LINES = ".jsonl"
SAMPLE = 100  # entities over which a whole model is explained


@dataclass(frozen=True)
class ExplainedOptions:
    """Which predictions to explain."""

    entity: Annotated[
        list[str] | None,
        typer.Option("--entity", metavar="E", help="Key of an entity; may be repeated."),
    ] = None
    entities: EntitiesOption = None
    frame: FrameOption = None
    at: AtOption = None
    counterfactual: Annotated[
        bool,
        typer.Option(
            "--counterfactual",
            help="Also look for the fewest rows whose absence turns the decision.",
        ),
    ] = False
    new_only: Annotated[
        bool,
        typer.Option(
            "--new-only",
            help="Explain recommendations of what the entity has not had before.",
        ),
    ] = False

    @property
    def keys(self) -> list[str] | None:
        """The keys that were given; None for none."""
        listed = [*(self.entity or []), *(listed_keys(self.entities) or [])]
        return listed if self.entity or self.entities is not None else None

    def check(self) -> None:
        """Raises where options do not go together."""
        if self.frame is not None and (self.keys is not None or self.at is not None):
            raise GelgtError(
                "bad_option",
                "--frame brings its own entities and times.",
                hint="Leave out --entity, --entities and --at.",
            )
        if self.keys is None and self.frame is None and (self.at or self.counterfactual):
            raise GelgtError(
                "bad_option",
                "--at and --counterfactual are about single predictions.",
                hint="Give --entity, or leave them out to explain the whole model.",
            )

    def arguments(self) -> dict[str, Any]:
        """What `Explainer.explain_all` takes."""
        return {
            "entities": self.keys,
            "at": self.at,
            "frame": frame_of(self.frame),
            "is_counterfactual": self.counterfactual,
        }


@bundled
def explain_command(
    *,
    explained: ExplainedOptions,
    sample: Annotated[
        int | None,
        typer.Option(
            "--sample",
            metavar="N",
            min=2,
            help="Entities over which the whole model is explained; 100 by default.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="Write to this .html or .json file; of several entities, one line each to a "
            ".jsonl file.",
        ),
    ] = None,
    run: RunOptions,
    as_json: JsonFlag = False,
) -> None:
    """Explain predictions of a run: which rows, columns, paths and ages move them.

    Every effect is measured by deletion: the row leaves what the model reads, and the prediction is
    made again. Without --entity the whole model is explained over its validation sample. Examples:

    gelgt explain runs/churn --entity 42 --at 2026-11-01 --out why.html

    gelgt explain runs/churn --entities @keys.txt --out why.jsonl

    gelgt explain runs/churn
    """
    explained.check()
    is_single = explained.frame is None and explained.keys is not None and len(explained.keys) == 1
    is_whole = explained.frame is None and explained.keys is None
    if sample is not None and not is_whole:
        raise GelgtError(
            "bad_option",
            "--sample is about the whole model.",
            hint="Leave out --entity, --entities and --frame, or --sample.",
        )
    _check_out(out, is_single or is_whole)
    from gelgt.cli.waiting import working
    from gelgt.explain import Explainer
    from gelgt.inference import Predictor

    loaded = run.load()
    load_deferred()
    with working("opening the source"):
        predictor = Predictor(loaded, run.open(loaded), device=run.device)
    if loaded.target.task_type == "recommendation":
        one = explained.keys[0] if is_single and explained.keys else None
        entity = None if explained.counterfactual else one
        explain_lists(predictor, entity, explained.at, out, as_json, explained.new_only)
        return
    if explained.new_only:
        raise GelgtError(
            "bad_option",
            "--new-only is about recommendations, and the run predicts a value.",
            hint="Leave out --new-only.",
        )
    explainer = Explainer(predictor)
    if is_whole:
        _whole(explainer, sample or SAMPLE, out, as_json)
    elif is_single:
        with working("explaining"):
            why = next(explainer.explain_all(**explained.arguments()))
        _single(why, out, as_json)
    else:
        _several(explainer, explained.arguments(), out, as_json)


def _check_out(out: Path | None, is_single: bool) -> None:
    if out is None:
        return
    if is_single:
        from gelgt.explain.explanation import check_path

        check_path(out)
    elif out.suffix.lower() != LINES:
        raise GelgtError(
            "unknown_format",
            f"Several explanations are written as a {LINES} file, got '{out.name}'.",
            hint=f"Choose a name that ends in {LINES}, or explain one entity.",
        )


def _single(why: "Explanation", out: Path | None, as_json: bool) -> None:
    if out is not None:
        why.save(out)
    if as_json:
        print_json(why.to_dict() | {"out": None if out is None else str(out)})
        return
    for text in why.notices:
        note(f"note: {text}")
    say(
        f"{why.table} {why.entity} at {why.at}: {why.what} is {why.prediction:.4g}, "
        f"{why.base:.4g} where nothing is known",
        "",
    )
    say(*(f"  {text}" for text in why.sentences))
    if why.counterfactual is not None:
        say("", f"  {why.counterfactual['text']}")
    say("")
    _print_effects(why)
    say("", _checked(why))
    if out is not None:
        say("", f"written to {out}")


def _print_effects(why: "Explanation") -> None:
    from gelgt.explain.sentences import describe

    rows = [
        [
            describe(effect),
            "" if effect.age_days is None else f"{effect.age_days:,.1f}",
            f"{effect.effect:+.4f}",
            f"{effect.error:.4f}",
        ]
        for effect in why.effects[:SHOWN]
    ]
    print_table(["what", "days", "effect", "±"], rows, right=(1, 2, 3))
    if len(why.effects) > SHOWN:
        say(f"the first {SHOWN} of {len(why.effects)}; --out FILE.html shows all")


def _checked(why: "Explanation") -> str:
    check = why.check
    beside = "" if check["area_attention"] is None else f"{check['area_attention']:.3f} by "
    beside += "attention, " if beside else ""
    return (
        f"checked by deletion: area {check['area']:.3f} between adding and removing rows in this "
        f"order, {beside}{check['area_random']:.3f} in random orders"
    )


def _whole(explainer: "Explainer", sample: int, out: Path | None, as_json: bool) -> None:
    from gelgt.cli.waiting import counted
    from gelgt.explain import explain_whole
    from gelgt.report.sections.explanation import FILE

    with counted("explaining", sample) as count:
        whole = explain_whole(explainer, sample=sample, told=count)
    kept = whole.save(explainer.predictor.run.folder / FILE)
    if out is not None:
        whole.save(out)
    if as_json:
        print_json(whole.to_dict() | {"out": str(kept if out is None else out)})
        return
    say(f"{whole.entities} entities at {whole.at}, each line deleted for all of them", "")
    for title, entries in (("path", whole.paths), ("column", whole.columns)):
        rows = [
            [e.name, f"{e.importance:.4f}", f"{e.low:.4f} to {e.high:.4f}", f"{e.effect:+.4f}"]
            for e in entries[:SHOWN]
        ]
        print_table([title, "importance", "95 %", "effect"], rows, right=(1, 2, 3))
        say("")
    say(f"written to {kept}; gelgt report shows it")


def _several(
    explainer: "Explainer", arguments: dict[str, Any], out: Path | None, as_json: bool
) -> None:
    """One explanation after the other, each written as soon as it is there."""
    from gelgt.cli.waiting import counted
    from gelgt.files import whole_file

    start, count = time.perf_counter(), 0
    if out is None:
        for why in explainer.explain_all(**arguments):
            print_json(why.to_dict())
        return
    total = len(explainer.predictor.seeds(*(arguments[n] for n in ("entities", "at", "frame"))))
    with (
        counted("explaining", total) as told,
        whole_file(out) as temporary,
        temporary.open("w", encoding="utf-8") as file,
    ):
        for why in explainer.explain_all(**arguments):
            file.write(why.to_json() + "\n")
            count += 1
            told(1)
    seconds = round(time.perf_counter() - start, 2)
    if as_json:
        print_json({"rows": count, "out": str(out), "seconds": seconds})
    else:
        say(f"{count:,} explanations written to {out} in {seconds:.1f} s")
