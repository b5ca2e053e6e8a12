"""An in-memory Kubernetes API server.

A request: `serving` (HTTP) parses it with `bodies` and `requests`; `cluster` and `lists` answer reads; `writes`, `deletion` and `actions`
apply the rules of the kind (`behaviour`, `pods`, `workloads`, `crds`, ...); `store` keeps the result and its history;
`controllers` acts as the built-in controllers; `watches` notifies watchers. Only `serving`, `bodies` and `watches` use HTTP or
wait; other modules take values and a clock.

Imports, bottom to top: `storage`, `kinds`, `cluster`, `writes`, `controllers`, `http`, `server`.
"""
