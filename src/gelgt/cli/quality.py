"""`gelgt bench quality`: scores over several seeds, beside baselines."""

from pathlib import Path
from typing import Annotated, Any

import typer

from gelgt.cli import options as given
from gelgt.cli.output import print_json, say


def quality_command(
    dataset: Annotated[str, typer.Option("--dataset", metavar="SOURCE", help="A RelBench folder or name, or another source.")],
    tasks: Annotated[list[str], typer.Option("--task", metavar="TASK", help="A task's name, or what `gelgt train` takes; repeatable.")],
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Where runs go; finished ones are not trained again.")] = Path(
        "bench-quality"
    ),
    preset: Annotated[str, typer.Option("--preset", metavar="NAME", help="cpu, gpu or paper.")] = "cpu",
    seeds: Annotated[int, typer.Option("--seeds", min=1, metavar="N", help="Runs of each task, with seeds 0, 1, …")] = 3,
    budget: Annotated[str | None, typer.Option("--budget", metavar="D", help="Train each run at most so long, such as 5m.")] = None,
    visibility: Annotated[
        str | None, typer.Option("--visibility", metavar="REGIME", help="frozen or seed-time; frozen by default for RelBench data.")
    ] = None,
    settings: given.SetOption = None,
    device: given.DeviceOption = "auto",
    as_json: given.JsonFlag = False,
) -> None:
    """Scores over several seeds beside the baselines of the same runs, with bootstrap intervals over the test rows.

    Writes OUT/quality.md and OUT/quality.json. It can be stopped and goes on where it was.
    """
    from gelgt.cli.train import settings_of
    from gelgt.presets import RunConfig

    changes = settings_of(settings, None, budget)
    RunConfig.of(preset, None, changes)
    if visibility is not None:
        given.one_of("--visibility", visibility, ("frozen", "seed-time"))
    from gelgt.bench.quality import bench_quality, markdown
    from gelgt.cli.bench import print_bench
    from gelgt.cli.interrupt import Interrupt
    from gelgt.cli.progress import training_progress
    from gelgt.cli.task import read_definition
    from gelgt.training.metrics import MAIN
    from gelgt.training.run_folder import write_file, write_json

    with training_progress() as progress:
        db = given.open_source(dataset, None, None, None)
        made = [db.task(read_definition(task)) for task in tasks]

        def begin(task: Any, config: RunConfig) -> None:
            progress.print(f"{task.name}, seed {config.train.seed}")
            progress.prepare(config.train, MAIN[task.task_type])

        chosen: Any = visibility
        with Interrupt(lambda: progress.has_begun, progress.print) as stop:
            result = bench_quality(
                db,
                made,
                out,
                preset=preset,
                seeds=range(seeds),
                changes=changes,
                visibility=chosen,
                device=device,
                progress=progress,
                begin=begin,
                stop=stop,
            )
    write_json(out / "quality.json", result)
    write_file(out / "quality.md", lambda path: path.write_text(markdown(result), encoding="utf-8"))
    if as_json:
        print_json(result)
        return
    print_bench(result)
    say("", f"written to {out / 'quality.md'}")
