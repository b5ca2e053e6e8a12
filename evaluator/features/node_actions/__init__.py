"""Plans taints and conditions of nodes: which nodes each policy acts on, within the limits, and the writes for it.

Pure; imports `policy` and `model`.
"""
