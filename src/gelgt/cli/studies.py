"""`gelgt bench quality`, `ablation`, `bias`, `generality` and `sweep`: studies that train models.

    gelgt bench ablation --dataset rel-f1 --task driver-dnf --seeds 3 --budget 5m --jobs 4

All take `StudyOptions`. Finished runs are kept and not trained again.
"""

from typing import Annotated

import typer

from gelgt.cli.bundle import bundled
from gelgt.cli.options import JsonFlag
from gelgt.cli.parse import one_of, sizes
from gelgt.cli.study import StudyOptions, run_command

ModelsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        metavar="NAME",
        help="gelgt (default), another model, lightgbm, lightgbm-2hop or entity-mean; repeatable. "
        "The others are compared with the first.",
    ),
]
BaselinesFlag = Annotated[
    bool,
    typer.Option(
        "--baselines/--no-baselines",
        help="Add LightGBM and the entity's past labels, computed once per task.",
    ),
]


@bundled
def quality(
    options: StudyOptions,
    models: ModelsOption = None,
    baselines: BaselinesFlag = True,
    as_json: JsonFlag = False,
) -> None:
    """Compare models over several seeds, beside baselines and published scores.

    Intervals are bootstrapped over entities. For gelgt the table also has its network alone and
    its trees alone. LightGBM learns the same labels, over one hop and over two.

    Ctrl-C stops a study; the same command continues it. Studies with the same --out share their
    runs.
    """
    from gelgt.bench import studies

    run_command(lambda: studies.quality(models or ()), options, baselines, as_json)


@bundled
def ablation(
    options: StudyOptions,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--variant", metavar="NAME", help="Such as without-bias; repeatable. By default all."
        ),
    ] = None,
    baselines: BaselinesFlag = True,
    as_json: JsonFlag = False,
) -> None:
    """Train GelGT without each of its parts.

    The parts of the paper are sampling, refinement, bias, GNN branch and attention; others were
    added by this project."""
    from gelgt.bench import studies

    run_command(lambda: studies.ablation(only or ()), options, baselines, as_json)


@bundled
def bias(options: StudyOptions, baselines: BaselinesFlag = True, as_json: JsonFlag = False) -> None:
    """Compare kinds of temporal bias: Gaussian, linear decay, time bins, none."""
    from gelgt.bench import studies

    run_command(studies.bias, options, baselines, as_json)


@bundled
def generality(
    options: StudyOptions,
    models: Annotated[
        list[str] | None,
        typer.Option("--model", metavar="NAME", help="relgt and relgnn by default; repeatable."),
    ] = None,
    baselines: BaselinesFlag = True,
    as_json: JsonFlag = False,
) -> None:
    """Add GelGT's sampling and bias to RelGT and RelGNN."""
    from gelgt.bench import studies

    run_command(
        lambda: studies.generality(models or ("relgt", "relgnn")), options, baselines, as_json
    )


@bundled
def sweep(
    options: StudyOptions,
    over: Annotated[
        str,
        typer.Argument(metavar="size|hops", help="Vary the rows of a subgraph, or its depth."),
    ],
    values: Annotated[
        str | None,
        typer.Option(
            "--values", metavar="A,B", help="By default 100,200,300,400,500 rows or 2,3,4,5 hops."
        ),
    ] = None,
    baselines: BaselinesFlag = True,
    as_json: JsonFlag = False,
) -> None:
    """Vary the size or the depth of the sampled subgraphs."""
    from gelgt.bench import studies

    one_of("sweep", over, ("size", "hops"))
    points = None if values is None else sizes(values)
    run_command(lambda: studies.sweep(over, points), options, baselines, as_json)


def add_to(bench: typer.Typer) -> None:
    """Add the commands to `gelgt bench`."""
    bench.command("quality")(quality)
    bench.command("ablation")(ablation)
    bench.command("bias")(bias)
    bench.command("generality")(generality)
    bench.command("sweep")(sweep)
