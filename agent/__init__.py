"""The node agent: collects metrics of its node, evaluates recording rules, serves /metrics and streams to the evaluator.

Imports `collectors`, `wire` and `plimsoll`; never `evaluator` or `sandbox`.
"""

import os

# gRPC's core writes lines of its own shape to stderr; what matters in them comes back as an error too. It looks at this
# when it is loaded, so it has to be said before that.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
