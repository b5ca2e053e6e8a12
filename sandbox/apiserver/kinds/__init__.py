"""The served resources and their kinds: merge rules, defaults, validation, admission and status.

Pure; imports `storage` for objects and selectors and `apiserver.errors`.
"""
