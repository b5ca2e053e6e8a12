"""The HTTP/1.1 server of every port: transport, parser, bodies, connections and the connection pool.

Imports `plimsoll.logs` and the standard parsers only.
"""
