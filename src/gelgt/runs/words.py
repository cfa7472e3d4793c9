"""What the baselines of a recommendation are, and what suspected leaks and accepted findings mean
for a run, in words: for the command line and the report."""

from collections.abc import Iterator

from gelgt.runs.record import RankingFacts, RunRecord


def ranking_words(record: RunRecord) -> dict[str, str]:
    """The meaning of each baseline that a run has.

    Example:
        >>> from gelgt.runs.record import TaskFacts
        >>> task = TaskFacts(name="t", task_type="recommendation")
        >>> ranking = RankingFacts(table="products", k=10, repeats=0.4)
        >>> scores = {"past": {}, "popular": {}}
        >>> record = RunRecord(
        ...     task=task, metric="map", metrics={}, baselines=scores, ranking=ranking
        ... )
        >>> ranking_words(record)["past"]
        'the rows of products that the entity has had, the most frequent first'
    """
    ranking = record.ranking or RankingFacts(table="", k=0)
    rows = f"rows of {ranking.table}" if ranking.table else "rows"
    learned = record.baseline_labels.get("train")
    learned_words = "" if learned is None else f", learned from {learned:,} training rows"
    words = {
        "past": f"the {rows} that the entity has had, the most frequent first",
        "recent": "what anyone has had, the newest first",
        "popular": "what everyone has had lately, the most frequent first",
        "lightgbm": f"LightGBM on the same candidates and columns{learned_words}",
    }
    return {name: words[name] for name in record.baselines if name in words}


def repeat_words(record: RunRecord) -> str:
    """How often labels repeat what the entity has had; empty for a run that does not say."""
    if record.ranking is None:
        return ""
    return (
        f"{_percent(record.ranking.repeats)} of the training labels name rows that the entity has "
        "had before; where this is rare, recent and popular leave such rows out."
    )


def score_words(record: RunRecord) -> str:
    """Which recommendations and which rows count; empty for a run that does not say."""
    if record.ranking is None:
        return ""
    return (
        f"Scores are of the first {record.ranking.k} recommendations, over the rows that have at "
        "least one right one."
    )


def doubts(record: RunRecord) -> Iterator[str]:
    """Why the scores of a run may be wrong: its accepted errors, and the suspected leaks with their
    share of the trees' gain, the largest first.

    Example:
        >>> from gelgt.runs.record import FindingFacts, TaskFacts
        >>> task = TaskFacts(name="t", task_type="binary_classification")
        >>> leak = FindingFacts(
        ...     code="suspected_leak", severity="leak", table="customers", column="left", share=0.61
        ... )
        >>> record = RunRecord(task=task, metric="roc_auc", metrics={}, findings=[leak])
        >>> list(doubts(record))
        ["customers.left: suspected leak, 61 % of the trees' gain"]
    """
    for each in record.findings:
        if each.is_accepted:
            words = each.code.replace("_", " ")
            yield f"{each.finding.place}: {words}, accepted: {each.message}"
    leaks = [f for f in record.findings if f.severity == "leak" and not f.is_accepted]
    for each in sorted(leaks, key=lambda f: -(f.share or 0)):
        words = f"{each.finding.place}: suspected leak"
        yield words if each.share is None else f"{words}, {_percent(each.share)} of the trees' gain"


def _percent(share: float) -> str:
    return "less than 1 %" if 0 < share < 0.01 else f"{100 * share:.0f} %"
