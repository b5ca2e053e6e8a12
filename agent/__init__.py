"""The node daemon: runs collectors, serves /metrics, streams to the evaluator what policies name."""
