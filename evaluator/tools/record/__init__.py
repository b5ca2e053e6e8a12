"""`plimsoll-evaluator record`: writes what agents report to OpenMetrics files, for backtests.

It is no replica of the evaluator: it decides and writes nothing in a cluster.
"""
