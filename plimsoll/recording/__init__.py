"""Recordings for backtests: OpenMetrics lines with a timestamp and a node, in one file per hour.

Used by `plimsoll-agent record` and `plimsoll record`.
"""
