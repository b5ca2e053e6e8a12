"""node-problem-detector's own configurations on recorded lines, where NODE_PROBLEM_DETECTOR_CONFIG names their folder."""

import os
from pathlib import Path

import pytest

from collectors.shared.problems import monitors
from collectors.shared.problems.matching import LineMatcher
from collectors.shared.problems.monitors import MonitorError
from tests.collectors.problems.recorded import HARMLESS, KERNEL, OTHERS

FOLDER = Path(os.environ.get("NODE_PROBLEM_DETECTOR_CONFIG", "/none"))
USED = {
    "kernel-monitor": set(KERNEL) - {"FilesystemIsReadOnly"},
    "readonly-monitor": {"FilesystemIsReadOnly"},
    "kernel-monitor-filelog": {"OOMKilling", "TaskHung", "UnregisterNetDevice", "KernelOops", "DockerHung"},
    "docker-monitor": {"CorruptDockerImage", "CorruptDockerOverlay2", "DockerContainerStartupFailure"},
    "docker-monitor-filelog": {"CorruptDockerImage"},
    "systemd-monitor": {"KubeletStart", "DockerStart", "ContainerdStart"},
}  # fmt: skip
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="NODE_PROBLEM_DETECTOR_CONFIG is unset")


@pytest.mark.parametrize("name", USED)
def test_each_rule_matches_its_recorded_line_and_no_other(name: str) -> None:
    monitor = monitors.parse((FOLDER / f"{name}.json").read_text(), name)
    for reason, line in {**KERNEL, **OTHERS}.items():
        matcher = LineMatcher(monitor.rules, monitor.lines)
        found = {match.rule.reason for match in matcher.push(line)}
        # A hung docker is a hung task too.
        expected = {reason, *({"TaskHung"} if reason == "DockerHung" else ())} & USED[name]
        assert found == expected, reason
    matcher = LineMatcher(monitor.rules, monitor.lines)
    assert [match.rule.reason for line in HARMLESS for match in matcher.push(line)] == []


def test_every_log_monitor_is_accepted_and_custom_ones_are_explained() -> None:
    for path in FOLDER.glob("*.json"):
        if '"plugin": "custom"' in path.read_text():
            with pytest.raises(MonitorError, match=r"\*\.prom file"):
                monitors.parse(path.read_text(), path.name)
        elif "system-stats" in path.name:
            with pytest.raises(MonitorError, match="collectors have its metrics"):
                monitors.parse(path.read_text(), path.name)
        elif path.stem in USED or path.stem in {"abrt-adaptor", "disk-log-message-filelog"}:
            monitors.parse(path.read_text(), path.name)
