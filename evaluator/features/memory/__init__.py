"""Memory of failures: a score per node and policy that decays, in one annotation of the node.

`scores` is pure: what the annotation says, and what it should say. `annotations` reads a policy's part, `readings` makes scores
metrics and keeps flapping nodes in violation, `controller` writes, and `feature` is what statuses and pages show.
"""
