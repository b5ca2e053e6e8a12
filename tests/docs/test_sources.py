"""docs/sources.md names existing flags, all flags of sources, and quotes real log lines."""

import re
from pathlib import Path

from evaluator.config import Settings
from evaluator.core.metrics import Metrics
from evaluator.core.sources.options import SourceOptions
from evaluator.core.sources.poller import Coverage
from plimsoll import flags

PAGE = (Path(__file__).parents[2] / "docs/sources.md").read_text()


def test_flags_of_the_page_exist_and_flags_of_sources_are_on_it():
    known = {opt.flag for _, opt in flags.options(Settings)}
    named = set(re.findall(r"--([a-zA-Z]+)\b", PAGE)) - {"raw", "query"}  # kubectl's, Prometheus'
    assert named <= known
    assert {opt.flag for _, opt in flags.options(SourceOptions)} <= named


def test_every_metric_of_the_page_exists():
    metrics = Metrics().registry.collect()
    known = {f"{m.name}_total" if m.type == "counter" else m.name for m in metrics}
    named = set(re.findall(r"\bplimsoll_\w+", PAGE))
    assert len(named) == 4
    assert named <= known


def test_log_lines_of_the_page_are_those_of_the_program():
    coverage = Coverage("prometheus")
    for metric in ("health_metric", "load1"):
        coverage.note(metric, frozenset(), "")
    coverage.note("gpu_temperature", frozenset({"node-c"}), "")
    coverage.note("disk_health", None, "no series")
    lines = [line.text for line in coverage.changes(3)]
    assert re.findall(r'msg="(prometheus .*)"', PAGE) == lines
