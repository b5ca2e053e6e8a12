"""Recording rules on the node: reads Prometheus rule files, evaluates them in the background and keeps their state.

Modules here do I/O and run the loop; `promql`, `storage` and `groups` below are pure and never import them.
"""
