"""The gRPC protocol between agent and evaluator: generated stubs, and the codec of full reports and deltas.

Imports no other package of this repository.
"""
