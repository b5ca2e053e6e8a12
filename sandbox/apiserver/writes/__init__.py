"""Writes: create, update, the patch types, server-side apply and deletion.

Pure; imports `storage`, `kinds` and `apiserver.cluster`.
"""
