"""Replays policies on recorded readings with the evaluator's own `deciding()`, on a clock that is an argument.

Pure; imports `plans`, `policy`, `readings` and `model`. Reading recordings and writing reports is `cli/backtest`.
"""
