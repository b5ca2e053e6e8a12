"""Parsers of what rasdaemon records: pure."""
