"""`plimsoll-evaluator record`: writes what agents report to OpenMetrics files, for backtests.

Imports `sources.agents`, and `cli.backtest` for policies. It is no replica of the evaluator: it decides and writes nothing in a cluster.
"""
