"""A Kubernetes API held in memory: what an API server decides, without its I/O.

`cluster` is the way in. Every module here is synchronous and takes the time as an argument or a clock; only
`sandbox.apiserver` and `serving` know about sockets.
"""
