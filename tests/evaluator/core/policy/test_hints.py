"""Hints for several series of one metric: the advice works as given and is short."""

import re
from pathlib import Path

import promql_parser
import pytest

from evaluator.core.catalog import shipped
from evaluator.core.policy import hints
from evaluator.core.policy.hints import aggregation_hint
from evaluator.core.policy.parse import parse
from evaluator.core.policy.reductions import Use, is_counter
from evaluator.core.policy.types import Operator
from plimsoll.text import LONGEST

LONG = "node_" + "x" * 248
RULES = Path(__file__).parents[4] / "deploy/rules"
ABOVE, BELOW = (Use(Operator.GREATER_THAN, 1.0),), (Use(Operator.LESS_THAN, 1.0),)
EQUALS = (Use(Operator.EQUALS, 1.0),)
MOST_WANTED, LEAST_WANTED = (
    (Use(Operator.GREATER_THAN, ranks=True),),
    (Use(Operator.LESS_THAN, ranks=True),),
)

FS = '{fstype!="tmpfs"}'
BUSY = '1 - avg(rate(node_cpu_seconds_total{mode="idle"}[1m]))'

TABLE = [
    # metric, its use, the series of deploy/rules that replaces it, the expression
    ("cpu_seconds_total", ABOVE, "node_cpu_utilisation_ratio", BUSY),
    ("cpu_seconds_total", BELOW, "node_cpu_utilisation_ratio", BUSY),
    ("cpu_seconds_total", LEAST_WANTED, "node_cpu_utilisation_ratio", BUSY),
    ("cpu_guest_seconds_total", ABOVE, "", 'avg(rate(METRIC{mode="user"}[1m]))'),
    ("cpu_core_throttles_total", ABOVE, "node_cpu_throttled_ratio", "sum(rate(METRIC[1m]))"),
    ("cpu_package_throttles_total", ABOVE, "node_cpu_throttled_ratio", "sum(rate(METRIC[1m]))"),
    ("cpu_package_throttles_total", BELOW, "", "sum(rate(METRIC[1m]))"),
    ("cpu_core_throttle_seconds_total", ABOVE, "node_cpu_throttled_ratio", "max(rate(METRIC[1m]))"),
    ("cpu_scaling_frequency_hertz", BELOW, "", "min(METRIC)"),
    ("cpu_frequency_hertz", BELOW, "", "min(METRIC)"),
    ("schedstat_running_seconds_total", ABOVE, "", "avg(rate(METRIC[1m]))"),
    ("schedstat_waiting_seconds_total", ABOVE, "", "avg(rate(METRIC[1m]))"),
    ("schedstat_timeslices_total", ABOVE, "", "sum(rate(METRIC[1m]))"),
    ("softnet_dropped_total", ABOVE, "", "sum(rate(METRIC[1m]))"),
    ("softnet_times_squeezed_total", ABOVE, "", "sum(rate(METRIC[1m]))"),
    ("softirqs_total", ABOVE, "", "sum(rate(METRIC[1m]))"),
    ("interrupts_total", ABOVE, "", "sum(rate(METRIC[1m]))"),
    ("filesystem_avail_bytes", BELOW, "node_filesystem_root_headroom_ratio", f"min(METRIC{FS})"),
    ("filesystem_avail_bytes", ABOVE, "node_filesystem_root_headroom_ratio", f"max(METRIC{FS})"),
    (
        "filesystem_avail_bytes",
        MOST_WANTED,
        "node_filesystem_root_headroom_ratio",
        f"min(METRIC{FS})",
    ),
    ("filesystem_free_bytes", BELOW, "node_filesystem_root_headroom_ratio", f"min(METRIC{FS})"),
    ("filesystem_files_free", BELOW, "node_filesystem_root_headroom_ratio", f"min(METRIC{FS})"),
    ("filesystem_size_bytes", BELOW, "", f"min(METRIC{FS})"),
    ("filesystem_readonly", EQUALS, "", f"sum(METRIC{FS} == bool 1)"),
    ("filesystem_device_error", EQUALS, "", f"sum(METRIC{FS} == bool 1)"),
    ("disk_io_time_seconds_total", ABOVE, "node_disk_utilisation_ratio", "max(rate(METRIC[1m]))"),
    ("disk_io_time_seconds_total", BELOW, "", "min(rate(METRIC[1m]))"),
    ("disk_io_time_weighted_seconds_total", ABOVE, "", "max(rate(METRIC[1m]))"),
    ("disk_read_time_seconds_total", ABOVE, "", "max(rate(METRIC[1m]))"),
    ("disk_read_bytes_total", ABOVE, "", "sum(rate(METRIC[1m]))"),
    ("disk_written_bytes_total", ABOVE, "", "sum(rate(METRIC[1m]))"),
    ("disk_reads_completed_total", ABOVE, "", "sum(rate(METRIC[1m]))"),
    ("disk_writes_completed_total", LEAST_WANTED, "", "sum(rate(METRIC[1m]))"),
    ("disk_io_now", ABOVE, "", "max(METRIC)"),
    (
        "network_receive_bytes_total",
        ABOVE,
        "node_network_receive_utilisation_ratio",
        "sum(rate(METRIC[1m]))",
    ),
    (
        "network_transmit_bytes_total",
        LEAST_WANTED,
        "node_network_transmit_utilisation_ratio",
        "sum(rate(METRIC[1m]))",
    ),
    ("network_receive_drop_total", ABOVE, "node_network_dropped_ratio", "sum(rate(METRIC[1m]))"),
    ("network_transmit_drop_total", ABOVE, "node_network_dropped_ratio", "sum(rate(METRIC[1m]))"),
    ("network_receive_errs_total", ABOVE, "", "sum(rate(METRIC[1m]))"),
    ("network_transmit_errs_total", ABOVE, "", "sum(rate(METRIC[1m]))"),
    ("network_receive_packets_total", ABOVE, "", "sum(rate(METRIC[1m]))"),
    ("network_speed_bytes", BELOW, "", "min(METRIC)"),
    ("network_speed_bytes", ABOVE, "node_network_fastest_link_speed_bytes", "max(METRIC)"),
    ("network_up", EQUALS, "", "sum(METRIC == bool 1)"),
    ("network_carrier_changes_total", ABOVE, "", "sum(rate(METRIC[1m]))"),
    ("network_mtu_bytes", BELOW, "", "min(METRIC)"),
    ("bonding_active", BELOW, "", "min(METRIC)"),
    ("infiniband_symbol_error_total", ABOVE, "", "sum(rate(METRIC[1m]))"),
    ("infiniband_rate_bytes_per_second", BELOW, "", "min(METRIC)"),
    ("infiniband_state_id", EQUALS, "", "sum(METRIC == bool 1)"),
    ("hwmon_temp_celsius", ABOVE, "node_hottest_sensor_celsius", "max(METRIC)"),
    ("hwmon_temp_celsius", BELOW, "", "min(METRIC)"),
    ("hwmon_temp_celsius", LEAST_WANTED, "node_hottest_sensor_celsius", "max(METRIC)"),
    ("hwmon_fan_rpm", BELOW, "", "min(METRIC)"),
    ("hwmon_power_average_watt", ABOVE, "", "max(METRIC)"),
    ("thermal_zone_temp", ABOVE, "node_hottest_sensor_celsius", "max(METRIC)"),
    ("cooling_device_cur_state", ABOVE, "", "max(METRIC)"),
    ("power_supply_capacity", BELOW, "", "min(METRIC)"),
    (
        "edac_correctable_errors_total",
        ABOVE,
        "node_memory_corrected_errors_24h",
        "sum(rate(METRIC[1m]))",
    ),
    (
        "edac_uncorrectable_errors_total",
        ABOVE,
        "node_memory_uncorrected_errors_24h",
        "sum(rate(METRIC[1m]))",
    ),
    (
        "edac_dimm_correctable_errors_total",
        ABOVE,
        "node_memory_dimm_corrected_errors_24h",
        "sum(rate(METRIC[1m]))",
    ),
    (
        "memory_failure_pages_total",
        ABOVE,
        "node_memory_failed_pages_24h",
        "sum(rate(METRIC[1m]))",
    ),
    (
        "machine_check_exceptions_total",
        ABOVE,
        "node_machine_check_exceptions_24h",
        "sum(rate(METRIC[1m]))",
    ),
    ("pcie_aer_errors_total", ABOVE, "node_pcie_fatal_errors_24h", "sum(rate(METRIC[1m]))"),
    (
        "resctrl_memory_bandwidth_bytes_total",
        ABOVE,
        "node_memory_bandwidth_bytes_per_second",
        "sum(rate(METRIC[1m]))",
    ),
    ("resctrl_llc_occupancy_bytes", ABOVE, "node_llc_occupancy_ratio", "max(METRIC)"),
    ("numa_memory_free_bytes", BELOW, "", "min(METRIC)"),
    ("hugepages_free_pages", BELOW, "", "min(METRIC)"),
    ("hugepages_free_pages", MOST_WANTED, "", "min(METRIC)"),
    ("md_disks", BELOW, "", "min(METRIC)"),
    ("systemd_unit_state", EQUALS, "", "sum(METRIC == bool 1)"),
    ("nvme_namespace_used_bytes", ABOVE, "", "max(METRIC)"),
    (
        "pressure_memory_waiting_seconds_total",
        ABOVE,
        "node_pressure_memory_waiting_60s_ratio",
        "max(rate(METRIC[1m]))",
    ),
    (
        "pressure_irq_stalled_seconds_total",
        ABOVE,
        "node_pressure_irq_stalled_60s_ratio",
        "max(rate(METRIC[1m]))",
    ),
    ("netstat_Tcp_RetransSegs", ABOVE, "node_tcp_retransmitted_ratio", "sum(rate(METRIC[1m]))"),
    ("netstat_Tcp_CurrEstab", ABOVE, "", "max(METRIC)"),
    ("vmstat_pgmajfault", ABOVE, "", "sum(rate(METRIC[1m]))"),
    ("vmstat_oom_kill", ABOVE, "", "sum(rate(METRIC[1m]))"),
    ("vmstat_nr_dirty", ABOVE, "", "max(METRIC)"),
    ("kernel_softlockup_total", ABOVE, "node_kernel_softlockups_1h", "sum(rate(METRIC[1m]))"),
    ("kernel_hung_tasks_total", ABOVE, "node_kernel_hung_tasks_1h", "sum(rate(METRIC[1m]))"),
    ("DCGM_FI_DEV_FB_USED", ABOVE, "", "max(METRIC)"),
    ("DCGM_FI_DEV_GPU_TEMP", ABOVE, "", "max(METRIC)"),
    ("load1", ABOVE, "", "max(METRIC)"),
    ("load1", BELOW, "", "min(METRIC)"),
    ("_total", ABOVE, "", "max(METRIC)"),
]


def advice(metric, uses):
    """The suggested series of deploy/rules, the name to record, and its expression."""
    text = aggregation_hint(metric, "", uses)
    series = re.match(r"name (\w+) of deploy/rules \(docs/shipped-rules\.md\) instead, or ", text)
    record, expression = re.findall("`(.*?)`", text)
    return (
        series[1] if series else "",
        record.removeprefix("record: "),
        expression.removeprefix("expr: "),
    )


def test_table_has_the_metrics_of_the_policies():
    assert len({metric for metric, *_ in TABLE}) >= 60


@pytest.mark.parametrize(("metric", "uses", "series", "expression"), TABLE)
def test_advice_depends_on_operator_and_metric_type(metric, uses, series, expression):
    found, record, told = advice(f"node_{metric}", uses)
    assert (found, told) == (series, expression.replace("METRIC", f"node_{metric}"))
    assert len(aggregation_hint(f"node_{metric}", "", uses)) <= LONGEST
    assert isinstance(
        promql_parser.parse(told), (promql_parser.AggregateExpr, promql_parser.BinaryExpr)
    )
    rules = [{"metricname": record, "operator": "GreaterThan", "target": 1}]
    assert (
        parse(
            {
                "metadata": {"name": "demo"},
                "spec": {"strategies": {"dontschedule": {"rules": rules}}},
            }
        ).problems
        == ()
    )


@pytest.mark.parametrize(("metric", "uses", "series", "expression"), TABLE)
def test_name_without_the_prefix_stands_for_both(metric, uses, series, expression):
    found, record, told = advice(metric, uses)
    assert found == series
    assert record.startswith("node_")
    assert f'{{__name__=~"(node_)?{metric}"' in told
    promql_parser.parse(told)


@pytest.mark.parametrize("source", ["", "prometheus", "custom-metrics"])
def test_less_than_rule_is_advised_to_use_the_minimum(source):
    for metric, *_ in TABLE:
        assert not re.search(r"\bmax\b", aggregation_hint(f"node_{metric}", source, BELOW))
        assert not re.search(r"\bmin\b", aggregation_hint(f"node_{metric}", source, ABOVE))


@pytest.mark.parametrize("source", ["", "prometheus", "custom-metrics"])
@pytest.mark.parametrize("uses", [ABOVE, BELOW, EQUALS, LEAST_WANTED])
def test_cpu_time_is_never_summed_over_cpus(source, uses):
    for metric in ("cpu_seconds_total", "cpu_guest_seconds_total"):
        text = aggregation_hint(f"node_{metric}", source, uses)
        assert "avg" in text
        assert "sum" not in text


def test_each_suggested_series_is_recorded_by_deploy_rules():
    recorded = {
        name
        for file in RULES.glob("*.yaml")
        for name in re.findall(r"- record: (\w+)", file.read_text())
    }
    named = {series for _, _, series, _ in TABLE if series}
    assert named
    assert named <= recorded


def test_sentence_for_an_agent_metric():
    assert aggregation_hint("node_load1", "", BELOW) == (
        "reduce them by a recording rule on the node and name its result here, such as `record: node_load1_min` with "
        "`expr: min(node_load1)`, in a file of the agent's --rules.file, beside those of deploy/rules (docs/rules.md)"
    )


def test_sentence_for_a_metric_with_a_shipped_rule():
    assert aggregation_hint("node_cpu_seconds_total", "", ABOVE).startswith(
        "name node_cpu_utilisation_ratio of deploy/rules (docs/shipped-rules.md) instead, or reduce them by a "
        "recording rule on the node"
    )


def test_equals_is_advised_to_count_with_the_number_to_compare():
    assert (
        "with `expr: sum(node_network_up == bool 1)` (the number of such series: compare it GreaterThan 0), in"
        in aggregation_hint("node_network_up", "", EQUALS)
    )


def test_first_use_decides():
    assert "`expr: min(node_load1)`" in aggregation_hint("node_load1", "", BELOW + ABOVE)
    assert "`expr: max(node_load1)`" in aggregation_hint("node_load1", "", ABOVE + BELOW)
    assert "`expr: max(node_load1)`" in aggregation_hint("node_load1", "")


@pytest.mark.parametrize(
    ("metric", "uses", "example"),
    [
        ("node_load1", ABOVE, "`node_load1_max: max by (node) (node_load1)`"),
        ("node_load1", BELOW, "`node_load1_min: min by (node) (node_load1)`"),
        (
            "node_cpu_seconds_total",
            ABOVE,
            '`node_cpu_busy_ratio: 1 - avg by (node) (rate(node_cpu_seconds_total{mode="idle"}[1m]))`',
        ),
    ],
)
def test_prometheus_advice_keeps_the_node_label(metric, uses, example):
    assert example in aggregation_hint(metric, "prometheus", uses)


@pytest.mark.parametrize(
    ("metric", "uses", "query"),
    [
        ("gpu-heat", ABOVE, "max by (<<.GroupBy>>) (<<.Series>>{<<.LabelMatchers>>})"),
        ("gpu-heat", BELOW, "min by (<<.GroupBy>>) (<<.Series>>{<<.LabelMatchers>>})"),
        (
            "cpu_seconds_total",
            ABOVE,
            '1 - avg by (<<.GroupBy>>) (rate(<<.Series>>{<<.LabelMatchers>>,mode="idle"}[1m]))',
        ),
    ],
)
def test_adapter_advice_uses_its_terms(metric, uses, query):
    assert f"`metricsQuery: {query}`" in aggregation_hint(metric, "custom-metrics", uses)


def test_invalid_series_name_gets_no_example():
    assert "`" not in aggregation_hint("disk-health", "")
    assert "`" not in aggregation_hint("disk-health", "prometheus")


@pytest.mark.parametrize("source", ["", "agents", "prometheus", "custom-metrics"])
@pytest.mark.parametrize("uses", [ABOVE, EQUALS])
@pytest.mark.parametrize("metric", [LONG, LONG + "_total", "node_" + "x" * 55, "x" * 54 + "_total"])
def test_hint_is_short_for_any_name(metric, source, uses):
    assert len(aggregation_hint(metric, source, uses)) <= LONGEST


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
    assert list(hints.counter_warnings(policy)) == ["my_errors_total"]


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
