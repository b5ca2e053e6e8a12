"""`plimsoll-evaluator test`: unit tests of policies, with series in the notation of `promtool test rules`.

Imports `evaluator.tools.replay` and `evaluator.tools.backtest`.
"""
