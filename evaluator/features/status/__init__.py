"""Statuses and Events of policies, and Events of pods that name a policy; written by the leader.

`plan` and `conditions` are pure.
"""
