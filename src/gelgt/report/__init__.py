"""One HTML file that says how a run went: scores beside baselines, curves, calibration, scores over
time, and what the bias learned.

    write_report(Path("runs/churn"))          # runs/churn/report.html

A report needs only the files of the run folder (`run.py` lists them): no torch, no database, no
network and no JavaScript. The same folder gives the same bytes.
"""

from gelgt.report.write import write_report

__all__ = ["write_report"]
