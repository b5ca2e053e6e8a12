"""`kubectl plimsoll`: shows policies, nodes, pods and gangs as the evaluator sees them.

Imports only `plimsoll`'s parsers and text, no numpy and no gRPC: it is installed where kubectl is.
"""
