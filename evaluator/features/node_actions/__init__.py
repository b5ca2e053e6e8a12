"""Taints and conditions of nodes that violate a policy, within limits; written by the leader.

`plan`, `limit`, `policy` and `report` are pure.
"""
