"""Timestamps in Kubernetes' formats."""

from datetime import UTC, datetime


def seconds(at: float) -> str:
    """A metav1.Time: `2026-11-20T09:15:04Z`."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micros(at: float) -> str:
    """A metav1.MicroTime, which leases use: `2026-11-20T09:15:04.123456Z`."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
