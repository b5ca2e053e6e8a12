"""The HTTP/1.1 server of every port: a stream (bytes), heads and fields (llhttp), bodies, connections (one request after the other), a server."""
