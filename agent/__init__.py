"""The node agent: collects metrics of its node, evaluates recording rules, serves /metrics and streams to the evaluator.

Imports `collectors`, `wire` and `plimsoll`; never `evaluator` or `sandbox`.
"""

import os

# gRPC's core logs to stderr in its own format; what matters is also returned as an error. It reads this variable when
# it is imported.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
