"""The object store with resource versions, lists, watches and selectors.

Imports `apiserver.errors`; contains no HTTP.
"""
