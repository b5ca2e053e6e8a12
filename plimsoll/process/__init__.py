"""The process a program runs in: its memory, and metrics about it.

What every program reports or tunes about itself belongs here; what it does belongs to its own packages.
"""
