"""PromQL for instant queries: expressions compiled to closures over a `Storage`, with the results of Prometheus 3.13.

Pure; imports nothing of the agent outside this package.
"""
