"""Writers of nodes that features share: plans of writes, the writer, node conditions.

`node_plan` is pure.
"""
