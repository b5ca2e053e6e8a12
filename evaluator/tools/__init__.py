"""Subcommands of plimsoll-evaluator that run once and exit. The flags of the service are in `evaluator/config.py`.

Only `main` imports them.
"""
