"""Taints and conditions of nodes that violate a policy, within limits; written by the leader.

`plan`, `limit`, `report` and `writes` are pure.
"""
