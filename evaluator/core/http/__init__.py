"""Listeners of the evaluator's ports, and the operator's port: health, metrics and explanations.

Imports no feature: features give it their routes.
"""
