"""Logging: setup, values that are safe to log, line output, and rate-limited loggers.

Imports `plimsoll.text` and `plimsoll.flags`.
"""
