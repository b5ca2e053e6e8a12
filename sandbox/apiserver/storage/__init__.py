"""Objects at rest: the store with its resource versions, lists, watches and selectors.

Imports `apiserver.errors`; knows no HTTP.
"""
