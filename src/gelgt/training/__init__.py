"""Training: the stages of a run (`run.py`), the fit loop (`fit.py`), and what they need.

run = train_run(db, task, Path("runs/churn"), RunConfig.of("cpu", task.task_type))
run.record.metrics["test"]
"""

from gelgt.runs.folder import Run, load_run
from gelgt.training.data import TrainingData
from gelgt.training.job import Options
from gelgt.training.progress import Progress
from gelgt.training.regime import in_regime
from gelgt.training.run import train_run

__all__ = ["Options", "Progress", "Run", "TrainingData", "in_regime", "load_run", "train_run"]
