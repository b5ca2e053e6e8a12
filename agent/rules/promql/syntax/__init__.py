"""PromQL as text: parsing, selectors and matchers, number formats and printing.

Pure; imports no evaluation code.
"""
