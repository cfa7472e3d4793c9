"""One HTML file that says how a run went: scores beside baselines, curves, calibration, drift, and
what the bias learned.

    write_report(Path("runs/churn"))          # runs/churn/report.html

A report is made from the files of the run folder alone (`run.py` states them). It needs no torch,
no database, no network and no JavaScript, and the same folder gives the same bytes.
"""

from gelgt.report.write import write_report

__all__ = ["write_report"]
