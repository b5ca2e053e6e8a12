"""Sample storage: the in-memory head with shared timestamps, its index and snapshots, and fixed series for tests.

Pure; imports `agent.rules.promql` for labels and values only.
"""
