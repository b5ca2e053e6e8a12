"""`plimsoll-agent record`: writes this node's metrics to OpenMetrics files, for backtests of policies.

Imports `scrape` and `config`; only `main` imports it.
"""
