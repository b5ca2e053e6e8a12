"""Behaviour of each kind: defaults, validation, admission and status.

Pure; imports `storage` for objects and `apiserver.errors`.
"""
