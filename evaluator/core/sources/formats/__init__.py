"""Decoders of what polled sources return: Prometheus vectors, MetricValueLists, node joins.

Pure; imports `readings` and `model`.
"""
