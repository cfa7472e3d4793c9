"""One training on several Ray workers, by Ray Train.

Ray Train places the workers, joins them by torch.distributed, and starts all of them anew when one
is lost. The run folder holds the checkpoint that they go on from, so that Ray keeps none.
"""

import shutil
import warnings
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from gelgt.errors import GelgtError

RESTARTS = 10  # of all workers, because one was lost
ANSWER = "answer"


def train_on_ray(
    work: Callable[[], dict[str, str]], workers: int, asks: dict[str, int], folder: Path
) -> dict[str, str]:
    """Do the same work on several workers, joined to each other; what the first one answers.

    Args:
        work: Of each worker.
        workers: How many.
        asks: Resources of each.
        folder: For Ray's own records, which are removed at the end; all nodes see it.

    Raises:
        GelgtError: ``worker_lost``: workers were lost again and again.
    """
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer

    is_cuda = bool(asks.get("num_gpus"))
    each = {"CPU": asks["num_cpus"]} | ({"GPU": asks["num_gpus"]} if is_cuda else {})
    timeout = int(timedelta(days=7).total_seconds())
    records = folder / "ray"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = TorchTrainer(
            _loop,
            train_loop_config={"work": work},
            torch_config=TorchConfig(backend="nccl" if is_cuda else "gloo", timeout_s=timeout),
            scaling_config=ScalingConfig(
                num_workers=workers, use_gpu=is_cuda, resources_per_worker=each
            ),
            run_config=RunConfig(
                name="gelgt",
                storage_path=str(records),
                failure_config=FailureConfig(max_failures=RESTARTS),
            ),
        )
        try:
            result = trainer.fit()
        except Exception as error:  # Ray's own classes differ between its versions
            raise GelgtError(
                "worker_lost",
                f"Workers of the training were lost again and again: {_last_line(error)}",
                hint="See the logs of Ray; the same command with --resume goes on from the last "
                "checkpoint.",
            ) from None
        finally:
            shutil.rmtree(records, ignore_errors=True)
    answer: dict[str, str] = (result.metrics or {}).get(ANSWER) or {}
    return answer


def _loop(config: dict[str, Any]) -> None:
    """What Ray runs in each worker."""
    from ray import train

    answer = config["work"]()
    train.report({ANSWER: answer})


def _last_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines or [type(error).__name__])[-1][:300]
