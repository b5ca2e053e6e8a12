"""Process-wide settings of the Python runtime and the operating system.

Imports nothing of the evaluator.
"""
