"""Actions of policies on nodes: labels, taints and conditions, and the limit on the number of nodes.

`plans.node_actions` decides on which nodes they are taken. Pure.
"""
