"""Runs scorers: registry, cluster snapshots, cached results per request, and explanations per pod.

`plugins` and the modules of mathematics are pure.
"""
