"""HTTP of the API server: request parsing, content types, discovery, OpenAPI, tables.

Imports `storage`, `writes` and `kinds`.
"""
