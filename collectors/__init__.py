"""Collectors: one module or folder per telemetry source; its name is its flag and its `collector` label.

A collector imports `interface` and `shared`, never another collector, `registry`, `agent`, `wire` or gRPC.
"""
