"""Alerts fire in their cases, use existing metrics, and have an entry in docs/alerts.md; so do dashboard queries."""

import functools
import json
import re
import shutil
import subprocess
from itertools import chain
from pathlib import Path

import pytest
import yaml
from prometheus_client.metrics import MetricWrapperBase

from agent.rules.groups import metrics
from agent.scrape import runner
from agent.scrape.self_metrics import SelfMetrics
from collectors import registry
from evaluator.core.metrics import Metrics, PolicyGauge
from evaluator.features.registry import FEATURES, documented_metrics

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CASES = Path(__file__).with_name("alerts.yaml")
RULES = yaml.safe_load((DEPLOY / "monitoring" / "alerts.yaml").read_text())["spec"]
ALERTS = [rule for group in RULES["groups"] for rule in group["rules"]]
DASHBOARDS = {
    path.name: json.loads(path.read_text()) for path in (DEPLOY / "monitoring").glob("*.json")
}
QUERIES = [
    target["expr"]
    for dashboard in DASHBOARDS.values()
    for panel in dashboard["panels"]
    for target in panel["targets"]
]
QUERIES += [
    annotation["expr"]
    for dashboard in DASHBOARDS.values()
    for annotation in dashboard["annotations"]["list"]
]
QUERIES += [
    variable["query"]
    for dashboard in DASHBOARDS.values()
    for variable in dashboard["templating"]["list"]
    if variable["type"] == "query"
]

MANUAL = "https://github.com/kube-plimsoll/kube-plimsoll/blob/main/docs/alerts.md"

# PromQL keywords in use.
WORDS = re.compile(
    r"\b(absent|and|by|count|group_left|histogram_quantile|ignoring|increase|label_values|last_over_time|max|offset|on|or|rate|sum"
    r"|time|topk|unless|without)\b"
)


@pytest.fixture
def promtool(tmp_path):
    """Run promtool in a folder with the rules, as Prometheus would read them, and their tests."""
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not on PATH")
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(RULES))
    shutil.copy(CASES, tmp_path)

    def run(*arguments):
        command = ["promtool", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    return run


def test_rules_are_valid_for_prometheus(promtool):
    done = promtool("check", "rules", "rules.yaml")
    assert done.returncode == 0, done.stdout + done.stderr


def test_alerts_fire_exactly_in_their_cases(promtool):
    done = promtool("test", "rules", "alerts.yaml")
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_has_a_case_in_which_it_fires():
    cases = yaml.safe_load(CASES.read_text())["tests"]
    expected = [
        *(
            sample["labels"]
            for case in cases
            for one in case.get("promql_expr_test", ())
            for sample in one["exp_samples"]
        ),
        *(
            f'alertname="{one["alertname"]}"'
            for case in cases
            for one in case.get("alert_rule_test", ())
            if one["exp_alerts"]
        ),
    ]
    firing = set(re.findall(r'alertname="(\w+)"', " ".join(expected)))
    assert firing == {alert["alert"] for alert in ALERTS}


ENDINGS = {"counter": ["_total"], "histogram": ["_bucket", "_count", "_sum"]}
OF_THE_TARGET = {"instance", "job", "le", "node", "pod"}
"""Labels added by the scraper, or of histograms."""


def shipped_rules():
    for path in (DEPLOY / "rules").glob("*.yaml"):
        for group in yaml.safe_load(path.read_text())["groups"]:
            yield from group["rules"]


@functools.cache  # reading the shipped rules takes a third of a second
def known():
    """Every metric of agent and evaluator, as Prometheus names its series, with its labels."""
    tables = (*runner.METRICS, *metrics.METRICS)
    catalogued = [*(metric for _, metric in registry.metrics()), *tables]
    found = {metric.name: set(metric.labels) for metric in catalogued}
    found |= {rule["record"]: set(rule.get("labels", ())) for rule in shipped_rules()}
    own = SelfMetrics()
    own.watch_stream()
    for family in own.families():
        labels = {label for sample in family.samples for label in sample.labels}
        bare = family.name.removesuffix("_total")
        found |= {bare + end: labels for end in ENDINGS.get(family.type, [""])}
    core = Metrics()
    of_features = (vars(made) for f in FEATURES if (made := f.metrics(core.registry)))
    for metric in chain(*(m.values() for m in (vars(core), *of_features))):
        if isinstance(metric, MetricWrapperBase | PolicyGauge):
            (family,) = metric.describe()
            labels = set(
                metric.labelnames if isinstance(metric, PolicyGauge) else metric._labelnames
            )
            found |= {family.name + end: labels for end in ENDINGS.get(family.type, [""])}
    return found | {"up": set(), "plimsoll_build_info": {"version"}}


def metrics_of(query):
    """The metrics in a query: its names without labels, durations, variables and PromQL keywords."""
    bare = re.sub(r'"[^"]*"', "", query)
    bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]", "", bare)
    bare = re.sub(r"\boffset \w+", "", bare)
    bare = re.sub(r"\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)", "", bare)
    bare = re.sub(r"(label_values\([^,]+),[^)]*\)", r"\1)", bare)
    return set(re.findall(r"[a-zA-Z_:][\w:]*", WORDS.sub("", bare)))


def test_names_in_a_query_are_found():
    query = 'sum by (le) (rate(a_total{x="y",z=~"b|c"}[5m])) / on () group_left () max(d_e) and time() - f > 1'
    assert metrics_of(query) == {"a_total", "d_e", "f"}


@pytest.mark.parametrize("query", [*(alert["expr"] for alert in ALERTS), *QUERIES])
def test_every_metric_and_label_exists(query):
    found, there = metrics_of(query), known()
    assert found
    assert found <= there.keys()
    bare = re.sub(r'"[^"]*"', "", query)
    grouped = re.findall(r"\b(?:by|without|on|ignoring)\s*\(([^)]*)\)", bare)
    matched = re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", " ".join(re.findall(r"\{([^}]*)\}", bare)))
    labels = {*re.findall(r"\w+", " ".join(grouped)), *matched}
    assert labels <= OF_THE_TARGET.union(*(there[name] for name in found))


def test_evaluator_metrics_are_used_by_an_alert_or_a_panel():
    """An unused metric has no purpose. The exceptions are for debugging."""
    watched = set().union(
        *(metrics_of(query) for query in [*QUERIES, *(a["expr"] for a in ALERTS)])
    )
    families = [family.name for family in documented_metrics().collect()]
    # The client library's own families (process_*, python_*) are for other dashboards.
    ours = [f for f in families if not f.startswith(("process_", "python_"))]
    unseen = [f for f in ours if not any(name.startswith(f) for name in watched)]
    assert unseen == []


def test_alerts_and_manual_entries_correspond():
    text = (ROOT / "docs" / "alerts.md").read_text()
    entries = re.findall(r"^#+ (Plimsoll\w+)$", text, re.MULTILINE)
    assert sorted(entries) == sorted(alert["alert"] for alert in ALERTS)


def test_alerts_have_severity_summary_and_a_link_to_their_manual_entry():
    for alert in ALERTS:
        assert alert["labels"]["severity"] in {"critical", "warning", "info"}
        assert alert["annotations"].keys() == {"summary", "description", "runbook_url"}
        assert alert["annotations"]["runbook_url"] == f"{MANUAL}#{alert['alert'].lower()}"
        assert "for" in alert, "an alert on a momentary problem wakes people for nothing"


@pytest.mark.parametrize("name", DASHBOARDS)
def test_panels_do_not_overlap(name):
    cells = [
        (x, y)
        for panel in DASHBOARDS[name]["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24


def test_dashboards_are_deployed_and_have_own_ids(built):
    (config,) = [obj for obj in built("monitoring") if obj["kind"] == "ConfigMap"]
    assert {name: json.loads(text) for name, text in config["data"].items()} == DASHBOARDS
    assert len({dashboard["uid"] for dashboard in DASHBOARDS.values()}) == len(DASHBOARDS) == 2


def test_scrape_configuration_finds_its_ports(built):
    """A PodMonitor names a port of the pods that it selects."""
    ports = {
        obj["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/name"]: {
            port["name"]
            for container in obj["spec"]["template"]["spec"]["containers"]
            for port in container["ports"]
        }
        for obj in built("core")
        if "template" in obj.get("spec", {})
    }
    monitors = [obj for obj in built("monitoring") if obj["kind"] == "PodMonitor"]
    assert len(monitors) == 2
    for monitor in monitors:
        selected = monitor["spec"]["selector"]["matchLabels"]["app.kubernetes.io/name"]
        for endpoint in monitor["spec"]["podMetricsEndpoints"]:
            assert endpoint["port"] in ports[selected]
