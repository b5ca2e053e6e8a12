"""The demos: steps on a running sandbox, printed with what was observed.

Imports `cluster` and `client`.
"""
