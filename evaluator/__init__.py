"""The evaluator: applies policies to readings, answers kube-scheduler, and acts on nodes and pods.

`app` wires the features of `features.registry` to the core; pyproject.toml has the order of imports as contracts.
"""

import os

# gRPC's core writes lines of its own shape to stderr; what matters in them comes back as an error too. It looks at this
# when it is loaded, so it has to be said before that.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
