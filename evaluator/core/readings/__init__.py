"""The metric store: the latest reading of every metric on every node, in arrays, and the merge of several sources.

A reading older than `stale_after` is stale, so missing: `column.is_fresh` alone decides it. Pure; imports `model`.
"""
