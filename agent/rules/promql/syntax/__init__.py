"""PromQL as text: parsing, selectors and matchers, number formats, printing and hints.

Pure; imports no evaluation code.
"""
