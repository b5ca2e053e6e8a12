"""What to do about several series of one metric: the advice works as it is given, and stays short."""

import re

import promql_parser
import pytest

from evaluator.policy import parse
from evaluator.remedies import remedy
from plimsoll.sentences import LONGEST

LONG = "node_" + "x" * 248

EXAMPLES = [
    ("node_hwmon_temp_celsius", "node_hwmon_temp_celsius_max", "max(node_hwmon_temp_celsius)"),
    ("load1", "node_load1_max", 'max({__name__=~"(node_)?load1"})'),
    (
        "node_network_receive_bytes_total",
        "node_network_receive_bytes_per_second",
        "sum(rate(node_network_receive_bytes_total[1m]))",
    ),
    (
        "edac_ue_total",
        "node_edac_ue_per_second",
        'sum(rate({__name__=~"(node_)?edac_ue_total"}[1m]))',
    ),
    ("_total", "node__total_max", 'max({__name__=~"(node_)?_total"})'),
]


def test_the_whole_sentence_for_a_metric_of_agents():
    assert remedy("node_load1", "") == (
        "reduce them by a recording rule on the node and name its result here, such as `record: node_load1_max` with "
        "`expr: max(node_load1)`, in a file of the agent's --rules.file, beside those of deploy/rules (docs/rules.md)"
    )


@pytest.mark.parametrize(("metric", "record", "expression"), EXAMPLES)
def test_agents_record_one_number_of_all_series_that_the_name_stands_for(
    metric, record, expression
):
    assert re.findall("`(.*?)`", remedy(metric, "")) == [f"record: {record}", f"expr: {expression}"]


@pytest.mark.parametrize(("metric", "record", "expression"), EXAMPLES)
def test_the_example_is_a_rule_and_its_result_a_name_for_policies(metric, record, expression, tas):
    parsed = promql_parser.parse(expression)
    assert isinstance(parsed, promql_parser.AggregateExpr)
    rules = [{"metricname": record, "operator": "GreaterThan", "target": 1}]
    assert parse(tas(dontschedule=rules)).problems == ()


def test_prometheus_keeps_the_label_that_names_the_node():
    assert "`node_load1_max: max by (node) (node_load1)`" in remedy("node_load1", "prometheus")


def test_an_adapter_is_told_in_its_own_words():
    assert "metricsQuery" in remedy("gpu-heat", "custom-metrics")


def test_what_cannot_be_a_series_name_gets_no_example():
    assert "`" not in remedy("disk-health", "")
    assert "`" not in remedy("disk-health", "prometheus")


@pytest.mark.parametrize("source", ["", "agents", "prometheus", "custom-metrics"])
@pytest.mark.parametrize("metric", [LONG, LONG + "_total", "node_" + "x" * 55, "x" * 54 + "_total"])
def test_it_is_short_whatever_the_name(metric, source):
    assert len(remedy(metric, source)) <= LONGEST
