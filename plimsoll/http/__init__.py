"""The HTTP/1.1 server of every port: a stream (bytes), heads (h11), connections (one request after the other), a server."""
