"""The scorers that ship with Plimsoll, one module each, registered in `evaluator/features/scorers/registry.py`.

Pure; a scorer never imports another scorer's module.
"""
