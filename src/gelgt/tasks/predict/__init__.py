"""The PREDICT sentence: tokens → syntax → plan → SQL."""

from gelgt.tasks.predict.compile import label_sql, population_sql
from gelgt.tasks.predict.parser import parse
from gelgt.tasks.predict.plan import Plan, plan_sentence

__all__ = ["Plan", "label_sql", "parse", "plan_sentence", "population_sql"]
