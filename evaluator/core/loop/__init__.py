"""The decision loop: runs decide() when readings, policies or nodes change, and publishes the result.

Imports `policy`, `readings` and `cache`; never `kube`.
"""
