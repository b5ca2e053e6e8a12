"""Configurations of monitors, and mistakes in them, each with a sentence that says what to do."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.shared.problems import monitors
from collectors.shared.problems.monitors import MonitorError
from tests.collectors.problems.configurations import document


def rule(**fields: str) -> list[dict[str, str]]:
    return [{"type": "temporary", "reason": "R", "pattern": "p", **fields}]


def test_configuration_is_read_with_defaults() -> None:
    monitor = monitors.parse(document(bufferSize=None, source=None, metricsReporting=None, extra=1), "kernel.json")  # fmt: skip
    assert (monitor.plugin, monitor.lookback, monitor.lines) == ("kmsg", 300.0, 10)
    assert (monitor.source, monitor.metrics) == ("kernel.json", True)
    assert [r.condition for r in monitor.rules] == ["", "", "KernelDeadlock", "KernelDeadlock", "ReadonlyFilesystem"]  # fmt: skip
    assert monitor.conditions[0].message == "no deadlock"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "is not an object"),
        (document(plugin="custom"), r"write a \*\.prom file"),
        (document(plugin="etw"), "none of kmsg, filelog, journald"),
        (document(lookback="5 minutes"), "lookback: not a duration"),
        (document(bufferSize=0.5), "bufferSize .* not a number"),
        (document(bufferSize=5000), "not from 1 to 100"),
        (document(rules={}), "rules .* not a list"),
        (document(rules=[1]), r"rules\[0\]: 1 is not an object"),
        (document(rules=rule(type="lasting")), "neither temporary nor permanent"),
        (document(rules=rule(type="permanent", condition="Other")), "not a type of `conditions`"),
        (document(rules=rule(reason="has blanks")), "not valid in Kubernetes"),
        (document(rules=rule(pattern="a)(b")), r"rules\[0\]: pattern: .*invalid"),
        (document(rules=rule(pattern=r"(a)\1")), "invalid regular expression"),
        (document(rules=rule(pattern="a" * 3000)), "more than 2000 characters"),
        (document(rules=rule() * 1000), "at most 500"),
        (document(conditions=[{"type": "Ke rnel", "reason": "R"}]), "not valid in Kubernetes"),
        (document(plugin="journald"), "pluginConfig.source is missing"),
        (document(plugin="filelog", logPath="kern.log"), "not an absolute path"),
        (document(plugin="filelog"), "pluginConfig.timestamp is missing"),
        (document(plugin="filelog", pluginConfig={"timestamp": ".", "message": ".", "timestampFormat": "2006"}), "has no day, hour"),
    ],
)  # fmt: skip
def test_mistakes_are_explained(text: str, message: str) -> None:
    with pytest.raises(MonitorError, match=message):
        monitors.parse(text, "kernel.json")


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5), lambda s: st.lists(s, max_size=3) | st.dictionaries(st.sampled_from(["type", "reason", "pattern", "condition"]), s, max_size=4), max_leaves=8))  # fmt: skip
def test_any_document_is_read_or_rejected(value: object) -> None:
    for key in (
        "plugin",
        "lookback",
        "bufferSize",
        "conditions",
        "rules",
        "pluginConfig",
        "skipList",
    ):
        with contextlib.suppress(MonitorError):
            monitors.parse(document(**{key: value}), "kernel.json")
