"""What controllers of several features use to write nodes: plans of writes, the writer, the log of conflicts.

`node_plan` is pure.
"""
