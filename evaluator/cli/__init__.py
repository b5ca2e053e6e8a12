"""Subcommands of plimsoll-evaluator that run once and exit.

Only `main` imports them.
"""
