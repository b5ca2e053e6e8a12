"""The exporter-toolkit web configuration: TLS, basic authentication and HTTP headers of the agent's port.

Imports only `plimsoll`.
"""
