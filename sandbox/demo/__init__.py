"""The demos: stories on a running sandbox, told step by step with what was observed.

Imports `cluster` and `client`.
"""
