"""Subcommands of plimsoll-evaluator that run once and exit.

Each imports what it checks or edits; nothing imports them but `main`.
"""
