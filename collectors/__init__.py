"""Collectors: one module per telemetry source; the module's name is its flag and its `collector` label.

A collector imports `base`, `formats` and `readers`, never another collector, `agent`, `wire` or gRPC.
"""
