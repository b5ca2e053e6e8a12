"""What changed, when and why: transitions of nodes, actions, edits of policies and elections, and coarse series of readings.

In memory, within `--historySize`; `plan`, `records` and `series` are pure.
"""
