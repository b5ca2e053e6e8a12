"""gRPC streams to the evaluator's replicas: one client per replica, snapshots of requested metrics, credentials.

Imports `wire` and `agent.metric_names`; knows nothing of HTTP.
"""
