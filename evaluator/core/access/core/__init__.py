"""Users, what they ask for, and the front proxy's headers. Pure: no I/O, no clock.

Imports `evaluator.core.model` and `plimsoll` only.
"""
