"""Parsers and encoders of text formats that several collectors share.

Pure: no module here opens a file or reads a clock.
"""
