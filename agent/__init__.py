"""The node daemon: runs collectors, serves /metrics, streams to the evaluator what policies name."""

import os

# gRPC's core writes lines of its own shape to stderr; what matters in them comes back as an error too. It looks at this
# when it is loaded, so it has to be said before that.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
