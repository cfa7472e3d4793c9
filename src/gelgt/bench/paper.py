"""Published scores, to stand beside what is measured here: those of `gelgt.tex`, and of two models
from their own papers.

All of them are test scores in the frozen regime (rows up to the test time), mean ± standard
deviation over the authors' seeds where there is one. They were measured with other code on another
machine and are never part of a mean.

    published("quality", "rel-f1", "driver-dnf", "relgt", "roc_auc")        0.7587 ± 0.0413
    published("ablation", "rel-avito", "ad-ctr", "without-bias", "mae")     0.0370 ± 0.0004
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

REGIME = "frozen"
METRICS = {"auc": "roc_auc", "mae": "mae", "mrr": "mrr"}


@dataclass(frozen=True)
class Figure:
    """A published score.

    Attributes:
        value: The mean.
        spread: ± of it, where the paper gives one.
        metric: As gelgt calls it.
        source: Which table it comes from.
    """

    value: float
    spread: float | None
    metric: str
    source: str

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"value": self.value, "spread": self.spread, "regime": REGIME, "source": self.source}


# A table of the paper: its label there, the study, the metric; then the models, then a line for
# each task. Wide tables come in two blocks of models. A dash is a cell without a score.
_TABLES = """
= paper, table 1 | quality | auc
  rdl hgt hgt-pe griffin relgt
rel-f1/driver-dnf         0.7262±0.0027 0.7077±0.0153 0.7117±0.0084 0.7091±0.0045 0.7587±0.0413
rel-f1/driver-top3        0.7554±0.0154 0.7765±0.0066 0.7340±0.0018 0.7795±0.0139 0.8352±0.0342
rel-avito/user-clicks     0.6590±0.0195 0.6376±0.0298 0.6457±0.0099 0.6330±0.0025 0.6830±0.0602
rel-avito/user-visits     0.6620±0.0010 0.6432±0.0002 0.6495±0.0022 0.6468±0.0045 0.6678±0.0015
rel-event/user-repeat     0.7689±0.0159 0.6496±0.0220 0.6536±0.0137 0.7709±0.0062 0.7609±0.0219
rel-event/user-ignore     0.8162±0.0111 0.8247±0.0096 0.8161±0.0007 0.8153±0.0038 0.8157±0.0040
rel-trial/study-outcome   0.6860±0.0101 0.5837±0.0141 0.5921±0.0303 0.6908±0.0071 0.6861±0.0040
rel-amazon/user-churn     0.7042±0.0005 0.6643±0.0041 0.6619±0.0042 0.7000±0.0036 0.7039±0.0040
rel-amazon/item-churn     0.8281±0.0003 0.7797±0.0039 0.7803±0.0053 0.8110±0.0051 0.8255±0.0006
rel-stack/user-engagement 0.9021±0.0007 0.8847±0.0044 0.8817±0.0046 0.8980±0.0023 0.9053±0.0005
rel-stack/user-badge      0.8986±0.0008 0.8608±0.0044 0.8566±0.0068 0.8700±0.0031 0.8632±0.0018
rel-hm/user-churn         0.6988±0.0021 0.6695±0.0067 0.6569±0.0109 0.6804±0.0014 0.6927±0.0019
= paper, table 1 | quality | auc
  lightgbm gelgt
rel-f1/driver-dnf         0.6886±0.0034 0.7608±0.0175
rel-f1/driver-top3        0.7393±0.0121 0.8408±0.0063
rel-avito/user-clicks     0.5360±0.0032 0.6844±0.0600
rel-avito/user-visits     0.5305±0.0011 0.6695±0.0060
rel-event/user-repeat     0.5305±0.0211 0.8357±0.0203
rel-event/user-ignore     0.7993±0.0154 0.8779±0.0122
rel-trial/study-outcome   0.7009±0.0063 0.7254±0.0059
rel-amazon/user-churn     0.5222±0.0051 0.7050±0.0065
rel-amazon/item-churn     0.6254±0.0044 0.8297±0.0096
rel-stack/user-engagement 0.6339±0.0350 0.9086±0.0186
rel-stack/user-badge      0.6343±0.0079 0.9044±0.0086
rel-hm/user-churn         0.5521±0.0025 0.6997±0.0017
= paper, table 2 | quality | mae
  rdl hgt hgt-pe griffin
rel-f1/driver-position    4.022±0.119    4.2263±0.0580  4.3921±0.1382  3.9315±0.2903
rel-avito/ad-ctr          0.0410±0.0010  0.0462±0.0021  0.0483±0.0027  0.0433±0.0004
rel-event/user-attendance 0.258±0.006    0.2635±0.0000  0.2611±0.0043  0.3708±0.0094
rel-trial/study-adverse   44.473±0.209   45.1692±2.6927 42.6484±0.2785 59.0902±0.0022
rel-trial/site-success    0.4000±0.0200  0.4428±0.0047  0.4396±0.0083  0.3801±0.0041
rel-amazon/user-ltv       14.3130±0.013  15.4120±0.0447 15.8643±0.0924 19.6055±0.0239
rel-amazon/item-ltv       50.0530±0.1630 55.8683±0.6003 55.8493±0.3226 66.7938±0.0193
rel-stack/post-votes      0.0650±0.0000  0.0679±0.0000  0.0680±0.0000  0.1395±0.0076
rel-hm/item-sales         0.0560±0.0000  0.0641±0.0012  0.0639±0.0003  0.0597±0.0008
= paper, table 2 | quality | mae
  relgt lightgbm gelgt
rel-f1/driver-position    3.9170±0.3448  4.1700±0.2200  3.7345±0.1200
rel-avito/ad-ctr          0.0420±0.0009  0.0410±0.0041  0.0362±0.0009
rel-event/user-attendance 0.2502±0.0033  0.2640±0.0011  0.2423±0.0031
rel-trial/study-adverse   43.9923±0.5928 44.0110±0.2020 42.5699±0.9700
rel-trial/site-success    0.3761±0.0178  0.4250±0.0008  0.3485±0.0200
rel-amazon/user-ltv       14.2665±0.0154 16.7830±0.0188 14.2538±0.0189
rel-amazon/item-ltv       54.6626±0.7006 60.5690±0.0033 49.2109±0.8092
rel-stack/post-votes      0.0654±0.0002  0.0680±0.0065  0.0648±0.0025
rel-hm/item-sales         0.0563±0.0006  0.0760±0.0002  0.0560±0.0009
= paper, rel-salt | quality | mrr
  rdl hgt relgt rgp gelgt
rel-salt/sales-group     0.20 0.20 0.35 0.34 0.38
rel-salt/sales-incoterms 0.70 0.75 0.73 -    0.77
rel-salt/sales-payterms  0.39 0.60 0.61 0.58 0.64
rel-salt/sales-office    0.93 0.96 0.98 -    0.99
rel-salt/sales-shipcond  0.59 0.76 0.75 0.81 0.83
rel-salt/item-incoterms  0.64 0.75 0.84 0.81 0.87
rel-salt/item-plant      0.90 0.91 0.97 -    0.99
rel-salt/item-shippoint  0.94 0.93 0.98 -    0.99
= paper, emerging architectures | quality | auc
  rel-llm nodeformer
rel-f1/driver-top3      0.82 0.82
rel-avito/user-clicks   0.66 0.66
rel-event/user-repeat   0.79 0.79
rel-event/user-ignore   0.83 0.83
rel-trial/study-outcome 0.71 0.71
rel-stack/user-badge    0.89 0.89
rel-hm/user-churn       0.55 0.61
= paper, rel-ratebeer | quality | mae
  rdl relgt lightgbm gelgt
rel-ratebeer/beer_ratings-total_score 0.36 0.33 0.47 0.32
= paper, generality | quality | auc
  relgnn
rel-avito/user-visits     0.6517
rel-event/user-repeat     0.7661
rel-trial/study-outcome   0.7003
rel-amazon/item-churn     0.8043
rel-stack/user-engagement 0.8975
= RelGNN's own paper | quality | auc
  relgnn
rel-f1/driver-dnf  0.753
rel-f1/driver-top3 0.857
= RelGNN's own paper | quality | mae
  relgnn
rel-f1/driver-position 3.798
= RGP's own paper | quality | auc
  rgp
rel-f1/driver-dnf  0.784
rel-f1/driver-top3 0.879
= paper, table 3 | ablation | auc
  gelgt without-sampling without-refinement without-bias
rel-avito/user-clicks   0.6844±0.0600 0.6688±0.0057 0.6677±0.0031 0.6669±0.0043
rel-avito/user-visits   0.6695±0.0060 0.6612±0.0018 0.6652±0.0040 0.6630±0.0028
rel-event/user-ignore   0.8779±0.0122 0.8691±0.0073 0.8699±0.0086 0.8638±0.0091
rel-trial/study-outcome 0.7254±0.0059 0.7161±0.0060 0.7155±0.0040 0.7192±0.0076
rel-amazon/user-churn   0.7050±0.0065 0.6812±0.0080 0.6973±0.0095 0.6945±0.0089
= paper, table 4 | ablation | mae
  gelgt without-sampling without-refinement without-bias
rel-avito/ad-ctr       0.0362±0.0009 0.0372±0.0009 0.0368±0.0007 0.0370±0.0004
rel-trial/site-success 0.3485±0.0200 0.3909±0.0048 0.3491±0.0178 0.3583±0.0034
rel-hm/item-sales      0.0560±0.0009 0.0584±0.0021 0.0599±0.0014 0.0585±0.0008
= paper, GNN branch | ablation | auc
  without-gnn gelgt
rel-f1/driver-dnf       0.7499 0.7608
rel-avito/user-clicks   0.6751 0.6844
rel-event/user-repeat   0.8173 0.8357
rel-trial/study-outcome 0.7094 0.7254
rel-amazon/item-churn   0.8128 0.8297
rel-stack/user-badge    0.8917 0.9044
rel-hm/user-churn       0.6822 0.6997
= paper, temporal bias | bias | auc
  linear-decay time-bins gaussian
rel-f1/driver-dnf       0.75 0.75 0.76
rel-avito/user-clicks   0.67 0.67 0.68
rel-event/user-repeat   0.75 0.74 0.76
rel-trial/study-outcome 0.70 0.71 0.72
rel-amazon/item-churn   0.69 0.69 0.70
rel-stack/user-badge    0.89 0.88 0.90
rel-hm/user-churn       0.68 0.67 0.69
= paper, generality | generality | auc
  relgnn relgnn+sampling
rel-avito/user-visits     0.6517 0.6673
rel-event/user-repeat     0.7661 0.7898
rel-trial/study-outcome   0.7003 0.7290
rel-amazon/item-churn     0.8043 0.8118
rel-stack/user-engagement 0.8975 0.9088
"""

# Training labels of each task, by the paper's statistics. Data of the same name with another number
# of labels is other data, and the published scores are not of it.
_TRAINING_ROWS = {
    "rel-amazon/user-churn": 4_732_555,
    "rel-amazon/item-churn": 2_559_264,
    "rel-amazon/user-ltv": 4_732_555,
    "rel-amazon/item-ltv": 2_707_679,
    "rel-avito/ad-ctr": 5_100,
    "rel-avito/user-clicks": 59_454,
    "rel-avito/user-visits": 86_619,
    "rel-event/user-attendance": 19_261,
    "rel-event/user-repeat": 3_842,
    "rel-event/user-ignore": 19_239,
    "rel-f1/driver-dnf": 11_411,
    "rel-f1/driver-top3": 1_353,
    "rel-f1/driver-position": 7_453,
    "rel-hm/user-churn": 3_871_410,
    "rel-hm/item-sales": 5_488_184,
    "rel-stack/user-engagement": 1_360_850,
    "rel-stack/user-badge": 3_386_276,
    "rel-stack/post-votes": 2_453_921,
    "rel-trial/study-outcome": 11_994,
    "rel-trial/study-adverse": 43_335,
    "rel-trial/site-success": 151_407,
}
# releases of RelBench differ by a few rows; training rows above a limit are sampled
_SIMILAR = 0.05
_FEW_ROWS = 20_000  # real tasks without statistics have more training labels

# Edge homophily ratio, and rows that soft gating keeps: (paper's appendix).
HOMOPHILY = {
    ("rel-f1", "driver-dnf"): 0.23,
    ("rel-avito", "user-clicks"): 0.17,
    ("rel-event", "user-repeat"): 0.13,
    ("rel-trial", "study-outcome"): 0.22,
    ("rel-amazon", "item-churn"): 0.21,
    ("rel-stack", "user-badge"): 0.21,
    ("rel-hm", "user-churn"): 0.25,
}
EFFECTIVE_NEIGHBOURS = {
    ("rel-f1", "driver-dnf"): 298,
    ("rel-avito", "user-clicks"): 275,
    ("rel-event", "user-repeat"): 324,
    ("rel-trial", "study-outcome"): 307,
    ("rel-amazon", "item-churn"): 249,
    ("rel-stack", "user-badge"): 333,
    ("rel-hm", "user-churn"): 347,
}
# μ and σ in days by epoch, of trial-study-outcome.
KERNELS = {
    1: (33.31, 9.98),
    3: (33.27, 9.94),
    5: (33.24, 9.90),
    7: (33.20, 9.86),
    9: (33.16, 9.83),
    10: (33.16, 9.83),
}


def is_published(dataset: str, task: str, training_rows: int, max_rows: int = 2_000_000) -> bool:
    """Whether a task is the paper's, not one of data that only shares its name, such as a twin.

    Example:
        >>> is_published("rel-f1", "driver-dnf", 11_411), is_published("rel-f1", "driver-dnf", 312)
        (True, False)
    """
    name = f"{dataset}/{task}"
    if name not in _TRAINING_ROWS:
        return any(name == task for _, task, _ in _figures()) and training_rows >= _FEW_ROWS
    expected = min(_TRAINING_ROWS[name], max_rows)
    return (
        training_rows >= (1 - _SIMILAR) * expected
        and training_rows <= (1 + _SIMILAR) * _TRAINING_ROWS[name]
    )


def published(study: str, dataset: str, task: str, model: str, metric: str) -> Figure | None:
    """The published score of a cell, if there is one.

    Args:
        study: ``quality``, ``ablation``, ``bias`` or ``generality``.
        dataset: As RelBench calls it; `is_published` tells whether the data is RelBench's.
        task: Its task.
        model: The variant's name in the study; an unchanged model has the same score in all.
        metric: Scores of another metric do not count.
    """
    figures, name = _figures(), f"{dataset}/{task}"
    figure = figures.get((study, name, model)) or figures.get(("quality", name, model))
    return figure if figure is not None and figure.metric == metric else None


def published_tasks(study: str = "quality") -> list[tuple[str, str]]:
    """Every (data set, task) of the paper's tables of a study, in their order."""
    names = dict.fromkeys(task for name, task, _ in _figures() if name == study)
    return [(task.split("/")[0], task.split("/")[1]) for task in names]


def published_models(study: str = "quality") -> list[str]:
    """Every model of the paper's tables of a study."""
    return list(dict.fromkeys(model for name, _, model in _figures() if name == study))


@cache
def _figures() -> dict[tuple[str, str, str], Figure]:
    """Every figure by (study, data set/task, model); where two tables have one, the first counts,
    which has more digits."""
    figures: dict[tuple[str, str, str], Figure] = {}
    source = study = metric = ""
    models: list[str] = []
    for line in _TABLES.strip().splitlines():
        if line.startswith("="):
            source, study, metric = (part.strip() for part in line[1:].split("|"))
        elif line.startswith(" "):
            models = line.split()
        else:
            task, *cells = line.split()
            assert len(cells) == len(models), line
            for model, cell in zip(models, cells):
                if cell != "-":
                    value, _, spread = cell.partition("±")
                    figure = Figure(
                        float(value), float(spread) if spread else None, METRICS[metric], source
                    )
                    figures.setdefault((study, task, model), figure)
    return figures
