"""gelgt in the tools that teams already have: MLflow, scikit-learn, MCP. Thin: each calls
`GelGT`, `Predictor` and `Explainer` and holds no logic of its own (docs/integrations.md).

    mlflow.py    log a run to MLflow, and a model that MLflow loads and serves
    sklearn.py   estimators over frames of (key, time)
    mcp.py       the tools of `gelgt mcp`, for programs that speak the Model Context Protocol
"""
