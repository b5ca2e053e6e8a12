"""The scorers that ship with Plimsoll, one module each.

Pure; a scorer imports `scoring` and `model`, never another scorer's module.
"""
