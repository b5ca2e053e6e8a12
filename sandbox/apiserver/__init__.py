"""A Kubernetes API held in memory: what an API server decides, apart from its I/O.

The way of a request: `serving` (HTTP) reads it with `bodies` and `requests`; `cluster` answers reads, `writes`, `deletion`
and `actions` decide writes by the rules of the kind (`behaviour`, `pods`, `workloads`, `crds`, ...), the `store` keeps the
result and its history, `controllers` does what built-in controllers would do then, and `watches` tells who waits. Only `serving`,
`bodies` and `watches` know about HTTP or waiting; all else takes values and a clock.
"""
