"""The metric store: the latest reading of every metric on every node, in arrays, and the merge of several sources.

A reading is stale when it is older than `stale_after`: `Store.column`, `PolledReadings.column`. Pure; imports `model`.
"""
