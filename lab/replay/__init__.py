"""Replays policies on recorded readings with the evaluator's own `deciding()`, on a clock that is an argument.

Pure. Reading recordings and writing reports is `lab.backtest`.
"""
