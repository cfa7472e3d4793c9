"""Training: the fit loop, losses and metrics, checkpoints, and the run folder that they leave.

run = train_run(db, task, Path("runs/churn"), RunConfig.of("cpu", task.task_type))
run.metrics["metrics"]["test"]
"""

from gelgt.training.data import TrainingData, in_regime
from gelgt.training.progress import Progress
from gelgt.training.run import Options, train_run
from gelgt.training.run_folder import Run, load_run

__all__ = ["Options", "Progress", "Run", "TrainingData", "in_regime", "load_run", "train_run"]
