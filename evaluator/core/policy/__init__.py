"""From TASPolicy objects to decisions: parse, evaluate, decide, and the state of `for` and `clearAfter`.

Pure; imports `readings` and `model`.
"""
