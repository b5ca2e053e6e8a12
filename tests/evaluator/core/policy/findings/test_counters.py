"""Which rules on counters are warned of, and the recording rule that the warning names."""

import pytest

from evaluator.core.catalog.load import shipped
from evaluator.core.policy.findings import counters
from evaluator.core.policy.reductions import is_counter


@pytest.mark.parametrize(
    "text",
    [
        "pressure_cpu_waiting_seconds_total GreaterThan 20",
        "node_network_receive_bytes_total GreaterThan 0",
        "node_cpu_seconds_total LessThan 1",
        "node_hwmon_energy_joule_total GreaterThan 0",
        "node_netstat_IpExt_InOctets GreaterThan 0",
        "node_context_switches_total GreaterThan 100000",
        "my_errors_total GreaterThan 5",
        "my_errors_total Equals 3",
        "vmstat_oom_kill GreaterThan 1",
    ],
)
def test_counter_compared_without_a_rate_is_a_warning(parsed, rule, text):
    policy = parsed(dontschedule=[rule(text)])
    (warning,) = policy.warnings
    assert warning.startswith(f"{text.split()[0]} is a counter that only grows until the node ")
    assert "`record: node_" in warning
    assert "rate(" in warning
    assert policy.problems == (), "it is valid"


@pytest.mark.parametrize(
    "text",
    [
        "my_errors_total GreaterThan 0",
        "my_errors_total Equals 0",
        "my_errors_total LessThan 1",
        "node_vmstat_oom_kill GreaterThan 0",
        "node_memory_MemAvailable_bytes LessThan 1000",
        "node_netstat_Tcp_CurrEstab GreaterThan 5",
        "node_pressure_cpu_waiting_60s_ratio GreaterThan 20",
    ],
)
def test_question_whether_anything_was_counted_is_no_warning_and_a_gauge_neither(
    parsed, rule, text
):
    assert parsed(labeling=[rule(text)]).warnings == ()


def test_ranking_by_a_counter_is_a_warning(parsed, rule):
    policy = parsed(scheduleonmetric=[rule("my_errors_total LessThan 0")])
    assert list(counters.warnings(policy)) == ["my_errors_total"]


def test_one_rule_that_is_not_meant_is_enough(parsed, rule):
    asks, compares = rule("my_errors_total GreaterThan 0"), rule("my_errors_total GreaterThan 9")
    assert parsed(dontschedule=[asks], labeling=[asks]).warnings == ()
    assert len(parsed(dontschedule=[asks], deschedule=[compares]).warnings) == 1


def test_shipped_series_is_named_first(parsed, rule):
    policy = parsed(dontschedule=[rule("pressure_cpu_waiting_seconds_total GreaterThan 20")])
    assert policy.warnings == (
        "pressure_cpu_waiting_seconds_total is a counter that only grows until the node restarts: name "
        "node_pressure_cpu_waiting_60s_ratio of deploy/rules (docs/shipped-rules.md) instead, or record its rate and name "
        "the result here, such as `record: node_pressure_cpu_waiting_ratio_max` with `expr: "
        'max(rate({__name__=~"(node_)?pressure_cpu_waiting_seconds_total"}[1m]))` (docs/rules.md)',
    )


def test_every_counter_of_the_catalog_is_one_by_its_name():
    catalog = shipped()
    entries = [catalog.find(name) for name in catalog.names]
    assert [one.name for one in entries if one.type == "counter" and not is_counter(one.name)] == []
    assert [one.name for one in entries if one.type == "gauge" and is_counter(one.name)] == []


def test_warnings_are_limited_in_number(parsed, rule):
    policy = parsed(dontschedule=[rule(f"m{number}_total GreaterThan 7") for number in range(100)])
    assert len(policy.warnings) == 21
    assert policy.warnings[-1] == "and 80 more warnings"
