"""Problems in logs: configurations of node-problem-detector, their patterns on lines, and the states that follow.

Nothing here does I/O or reads a clock: lines, times and states of the machine are arguments.
"""
