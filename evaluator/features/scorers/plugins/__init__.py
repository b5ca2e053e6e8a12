"""The scorers that ship with Plimsoll, one module each, registered in `scorerhost/registry.py`.

Pure; a scorer imports `scoring` and `model`, never another scorer's module.
"""
