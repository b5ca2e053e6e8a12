"""The closed loop of placement over virtual time: placement decides use, use decides readings, readings decide placement.

Pure: times, traces and random generators are arguments. Used by the command `simulate` and by `bench/placement`.
"""
