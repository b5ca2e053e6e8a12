"""Objects and their store: resource versions, history, lists and selectors. Has no rules of any kind.

Imports `apiserver.errors`.
"""
