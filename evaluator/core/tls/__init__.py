"""Certificates of the evaluator's ports: TLS contexts and their reload.

Imports nothing of the evaluator.
"""
