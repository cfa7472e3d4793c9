"""The paper's theorems, measured. Where a claim holds only under conditions, both sides are
measured; `measure.bench_theory` says what came out on rel-f1.

    katz.py      Upper Bound of Relative Structural Loss, Exponential Decay of Structural
                 Sensitivity
    layers.py    Enhancement of Semantic Relevance-to-Noise Ratio, Convergence of Temporal Center,
                 Attention Score Ratio Enhancement
    measure.py   all of them on a data set
"""
