"""What changed, when and why: transitions of nodes, actions, edits of policies and elections, and coarse series of readings.

In memory, within `--historySize`; `plan`, `ring` and `series` are pure.
"""
