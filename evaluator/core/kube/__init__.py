"""The only access to the API server: client, transport, connection and reflector.

Imports `model` for decoding; only `connection` imports the Kubernetes client.
"""
