"""Gang scheduling: holds pods by a scheduling gate until their pod group exists and fits, then ungates groups by priority.

Modules here do I/O; `core` is pure.
"""
