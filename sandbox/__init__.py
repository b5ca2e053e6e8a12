"""A whole cluster on one machine: an API in memory, real agents, the real evaluator, a pod binder."""
