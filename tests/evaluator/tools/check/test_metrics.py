"""plimsoll check on the metrics that policies name."""

import json

import pytest
import yaml

from evaluator.core.catalog import shipped
from evaluator.core.policy import parse
from evaluator.tools.check import main, metrics

COUNTERS = ["node_context_switches_total", "my_errors_total", "pressure_cpu_waiting_seconds_total"]


@pytest.fixture
def warned(tmp_path, capsys):
    """The warnings about the dontschedule rules of a policy, written as `metric operator target`."""

    def run(*texts, strategy="dontschedule", recorded=()):
        rules = []
        for text in texts:
            metric, operator, *target = text.split()
            rules.append(
                {"metricname": metric, "operator": operator}
                | ({"target": yaml.safe_load(target[0])} if target else {})
            )
        body = {
            "apiVersion": "telemetry.intel.com/v1alpha1",
            "kind": "TASPolicy",
            "metadata": {"name": "demo"},
            "spec": {"strategies": {strategy: {"rules": rules}}},
        }
        (tmp_path / "policy.json").write_text(json.dumps(body))
        groups = [{"name": "g", "rules": [{"record": name, "expr": "1"} for name in recorded]}]
        (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": groups}))
        assert main.main([str(tmp_path), "--output=json"]) == 0
        run.findings = json.loads(capsys.readouterr().out)["findings"][0]
        return run.findings["warnings"]

    return run


def test_misspelt_metric_is_a_warning(warned):
    (warning,) = warned("health_metrc GreaterThan 0")
    assert warning.startswith(
        "no shipped metric or rule is named health_metrc; similar: health_metric"
    )
    assert warned("health_metric GreaterThan 0", "node_health_metric GreaterThan 0") == []


def test_metric_of_the_operator_is_no_warning(warned):
    assert warned("rack_inlet_fan GreaterThan 0", "health_metric GreaterThan 0") == []
    (note,) = [text for text in warned.findings["meanings"] if text.startswith("not shipped")]
    assert "exports rack_inlet_fan: a text file" in note
    assert warned("health_metrc GreaterThan 0", recorded=["node_health_metrc"]) == []


def test_misspelt_field_of_meminfo_is_a_warning(warned):
    (warning,) = warned("memory_availabel_bytes LessThan 64Gi")
    assert "memory_MemAvailable_bytes" in warning
    names = ("MemAvailable_bytes", "Active_anon_bytes", "HugePages_Free")
    assert warned(*(f"node_memory_{name} LessThan 64Gi" for name in names)) == []
    assert not any(" exports " in text for text in warned.findings["meanings"])


def test_metric_that_only_some_kernels_have_is_noted(warned):
    assert warned("vmstat_no_such_field GreaterThan 0") == []
    assert any(
        text.startswith("not certain: collector vmstat exports vmstat_no_such_field only where")
        for text in warned.findings["meanings"]
    )


def test_given_recording_rules_are_suggested(warned):
    (warning,) = warned("inlet_hotest GreaterThan 30", recorded=["node_inlet_hottest"])
    assert "similar: inlet_hottest" in warning


def test_condition_that_resembles_a_usual_one_is_a_warning(warned):
    (warning,) = warned("node_condition_Rady_y Equals 0")
    assert warning.endswith("similar: node_condition_Ready")
    assert warned("node_condition_GpuUnhealthy Equals 1", "node_condition_Ready Equals 0") == []


def test_metric_with_several_series_is_a_warning_with_advice_for_the_operator(warned):
    (warning,) = warned("filesystem_avail_bytes LessThan 10Gi")
    assert warning.startswith(
        "filesystem_avail_bytes can have several series on a node, by device and mountpoint"
    )
    assert "name node_filesystem_root_headroom_ratio of deploy/rules" in warning
    assert "min({__name__" in warning
    (warning,) = warned("hwmon_temp_celsius GreaterThan 90")
    assert "name node_hottest_sensor_celsius" in warning
    (warning,) = warned("node_cpu_seconds_total LessThan", strategy="scheduleonmetric")
    assert "name node_cpu_utilisation_ratio" in warning


def test_counter_is_a_warning_with_its_rate(warned):
    (warning,) = warned("node_context_switches_total GreaterThan 100000")
    assert "is a counter that only grows until the node restarts" in warning
    assert "`expr: sum(rate(node_context_switches_total[1m]))`" in warning


def test_check_warns_of_a_counter_as_the_evaluator_does(tas, rule):
    rules = [rule(f"{name} GreaterThan 20") for name in COUNTERS]
    policy = parse.parse(tas("demo", dontschedule=rules))
    assert list(metrics.warnings(policy, shipped(), known=COUNTERS)) == list(policy.warnings)
    assert len(policy.warnings) == len(COUNTERS)


@pytest.mark.parametrize(
    ("metric", "series"),
    [
        ("pressure_cpu_waiting_seconds_total", "node_pressure_cpu_waiting_60s_ratio"),
        ("netstat_Tcp_RetransSegs", "node_tcp_retransmitted_ratio"),
    ],
)
def test_shipped_rule_comes_before_the_rate_of_a_counter(warned, metric, series):
    (warning,) = warned(f"{metric} GreaterThan 1")
    assert f"restarts: name {series} of deploy/rules" in warning


def test_counter_of_the_kernel_is_recognised_by_its_name(warned):
    (warning,) = warned("node_vmstat_oom_kill GreaterThan 5")
    assert "`expr: sum(rate(node_vmstat_oom_kill[1m]))`" in warning
    assert warned("netstat_Tcp_CurrEstab GreaterThan 1000") == []


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        (
            "cpu_utilisation_ratio GreaterThan 80",
            "GreaterThan 80 is never true: write 0.8 for 80 %",
        ),
        (
            "cpu_utilisation_ratio GreaterThan 1",
            "is between 0 and 1, so GreaterThan 1 is never true",
        ),
        ("cpu_utilisation_ratio LessThan 20", "LessThan 20 is always true: write 0.2 for 20 %"),
        ("memory_headroom_ratio LessThan 0", "LessThan 0 is never true"),
        ("memory_headroom_ratio GreaterThan -1", "GreaterThan -1 is always true"),
        ("health_metric Equals 3", "is between 0 and 2, so Equals 3 is never true"),
        pytest.param(
            "plimsoll_risk GreaterThan 30",
            "GreaterThan 30 is never true: write 0.3 for 30 %",
            marks=pytest.mark.features("scorers"),
        ),
        ("node_condition_Ready Equals 2", "Equals 2 is never true"),
        ("memory_MemAvailable_bytes LessThan 10", "write 10Gi or 10Mi for a larger unit"),
    ],
)
def test_target_outside_the_range_is_a_warning(warned, rule, says):
    (warning,) = warned(rule)
    assert says in warning


@pytest.mark.parametrize(
    "rule",
    [
        "cpu_utilisation_ratio GreaterThan 0.8",
        "cpu_utilisation_ratio LessThan 1",
        "health_metric Equals 2",
        "memory_MemAvailable_bytes LessThan 2Gi",
        "memory_MemAvailable_bytes LessThan 0",
        "load1 GreaterThan 80",
        "node_condition_Ready Equals 0",
    ],
)
def test_target_within_the_range_is_no_warning(warned, rule):
    assert warned(rule) == []
