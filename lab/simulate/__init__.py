"""The command `plimsoll simulate`: what a policy would do to the use of nodes, in a closed loop.

`tools.closed_loop` simulates; this package reads its input, compares the runs and writes the report.
"""
