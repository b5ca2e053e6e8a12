"""Listeners of the evaluator's ports, and the operator's port: health, metrics and explanations.

Imports the packages it serves; nothing but `app` imports it.
"""
