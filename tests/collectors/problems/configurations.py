"""A configuration of a kernel monitor, in node-problem-detector's format."""

import json
from typing import Any

KERNEL_LOG: dict[str, Any] = {
    "plugin": "kmsg",
    "logPath": "/dev/kmsg",
    "lookback": "5m",
    "bufferSize": 5,
    "source": "kernel",
    "metricsReporting": True,
    "conditions": [
        {"type": "KernelDeadlock", "reason": "NoDeadlock", "message": "no deadlock"},
        {"type": "ReadonlyFilesystem", "reason": "Writable", "message": "writable"},
        {"type": "example.com/Split-Brain", "reason": "Whole", "message": "whole"},
    ],
    "rules": [
        {"type": "temporary", "reason": "Hung", "pattern": r"task \S+:\w+ blocked for more than \w+ seconds\."},
        {"type": "temporary", "reason": "Oops", "pattern": r"BUG: .*\n.*RIP: \S+"},
        {"type": "permanent", "condition": "KernelDeadlock", "reason": "DockerHung", "pattern": r"task docker:\w+ blocked for more than \w+ seconds\."},
        {"type": "permanent", "condition": "KernelDeadlock", "reason": "Stuck", "pattern": "stuck", "patternGeneratedMessageSuffix": "reboot"},
        {"type": "permanent", "condition": "ReadonlyFilesystem", "reason": "IsReadOnly", "pattern": "read-only"},
    ],
}  # fmt: skip


def document(**changes: Any) -> str:
    """The configuration with other values; None removes a key."""
    merged = {**KERNEL_LOG, **changes}
    return json.dumps({key: value for key, value in merged.items() if value is not None})
