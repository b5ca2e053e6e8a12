"""Collector runs and the exposition formats: what GET /metrics returns.

Imports `collectors` and `plimsoll.http`; knows nothing of streams or rules.
"""
