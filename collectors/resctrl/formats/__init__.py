"""Parsers of what resctrl and the kubelet write: pure."""
