"""The kernel's log: its records, readers of it, and the socket over which a privileged process hands them over.

`records` is pure. Imports nothing of other packages but `plimsoll`.
"""
