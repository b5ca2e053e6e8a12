"""Runs scorers: registry, cluster snapshots, cached results per request, and explanations per pod.

Imports `scoring`, `cache` and `readings`; never `extender`.
"""
