"""Rule files are parsed into groups and named errors; promtool, if installed, must agree."""

import shutil
import subprocess

import pytest

from agent.rules.groups.file import RuleFile, RuleFileError, merged_files, read
from plimsoll import strictyaml

GOOD = """
groups:
- name: cpu
  interval: 1m30s
  limit: 10
  rules:
  - record: node_cpu_busy_ratio
    expr: rate(node_cpu_seconds_total[1m])
    labels: {kind: busy, empty: ""}
  - record: node:one
    expr: 1
- name: empty
  rules:
"""

PROMTOOL = shutil.which("promtool")


def loaded(text: str) -> RuleFile:
    return read(strictyaml.load(text))


def promtool_accepts(path) -> bool:
    return subprocess.run([PROMTOOL, "check", "rules", path], capture_output=True).returncode == 0


def wrapped(rule: str) -> str:
    """A file with a valid rule and this one."""
    return f"groups:\n- name: g\n  rules:\n  - {{record: good, expr: up}}\n  - {rule}\n"


def test_groups_and_rules_are_read() -> None:
    found = loaded(GOOD)
    assert found.errors == ()
    cpu, empty = found.groups
    assert (cpu.name, cpu.interval, cpu.limit) == ("cpu", 90_000, 10)
    assert (empty.name, empty.interval, empty.limit, empty.rules) == ("empty", None, 0, ())
    busy, one = cpu.rules
    assert busy.record == "node_cpu_busy_ratio"
    assert busy.expression.text == "rate(node_cpu_seconds_total[1m])"
    assert busy.labels == (("empty", ""), ("kind", "busy"))
    assert (one.record, one.expression.kind) == ("node:one", "scalar")


@pytest.mark.parametrize("text", ["", "groups:", "groups: []", "# nothing\n"])
def test_file_may_be_empty(text) -> None:
    assert loaded(text) == RuleFile()


BAD_FILES = {
    "list": "- name: a",
    "text": "groups",
    "unknown field": "groups: []\nrules: []",
    "groups no list": "groups: {name: a}",
    "group no mapping": "groups: [a]",
}


@pytest.mark.parametrize("text", BAD_FILES.values(), ids=BAD_FILES)
def test_invalid_rule_file_is_rejected_whole(text, tmp_path) -> None:
    with pytest.raises(RuleFileError):
        loaded(text)
    if PROMTOOL:
        (tmp_path / "r.yaml").write_text(text)
        assert not promtool_accepts(tmp_path / "r.yaml")


BAD_GROUPS = {
    "invalid": [
        "{rules: []}",
        "{name: '', rules: []}",
        "{name: b, interval: 5x}",
        "{name: b, interval: -5s}",
        "{name: b, interval: 5s1m}",
        "{name: b, interval: 5}",
        "{name: b, limit: many}",
        "{name: b, rule: []}",
        "{name: b, rules: {record: a, expr: 1}}",
        "{name: [b]}",
    ],
    "duplicate": ["{name: g, rules: []}"],
}


@pytest.mark.parametrize(
    ("reason", "group"), [(reason, group) for reason, all_ in BAD_GROUPS.items() for group in all_]
)
def test_invalid_group_is_reported_and_others_work(reason, group, tmp_path) -> None:
    text = f"groups:\n- {{name: g, rules: [{{record: a, expr: up}}]}}\n- {group}\n"
    found = loaded(text)
    assert [rule.record for group in found.groups for rule in group.rules] == ["a"]
    ((_, rule, said, _),) = found.errors
    assert (rule, said) == ("", reason)
    if PROMTOOL:
        (tmp_path / "r.yaml").write_text(text)
        assert not promtool_accepts(tmp_path / "r.yaml")


BAD_RULES = {
    "{record: bad, expr: 'rate('}": ("bad", "parse"),
    "{record: bad, expr: 'rate(up)'}": ("bad", "type"),
    "{record: bad, expr: ''}": ("bad", "invalid"),
    "{record: bad}": ("bad", "invalid"),
    "{record: bad, exp: up}": ("bad", "invalid"),
    "{record: bad, expr: [up]}": ("bad", "invalid"),
    "{record: bad, expr: up, for: 5m}": ("bad", "invalid"),
    "{record: bad, expr: up, annotations: {a: b}}": ("bad", "invalid"),
    "{record: bad, alert: bad, expr: up}": ("bad", "invalid"),
    "{record: 'b d', expr: up}": ("b d", "invalid"),
    "{record: bäd, expr: up}": ("bäd", "invalid"),
    "{record: 1bad, expr: up}": ("1bad", "invalid"),
    "{record: bad, expr: up, labels: {__name__: x}}": ("bad", "invalid"),
    "{record: bad, expr: up, labels: {a-b: x}}": ("bad", "invalid"),
    "{record: bad, expr: up, labels: {a: [x]}}": ("bad", "invalid"),
    "{record: bad, expr: up, labels: x}": ("bad", "invalid"),
    "{expr: up}": ("#2", "invalid"),
    "{}": ("#2", "invalid"),
    "up": ("#2", "invalid"),
}


@pytest.mark.parametrize(("rule", "named"), BAD_RULES.items(), ids=BAD_RULES)
def test_invalid_rule_is_reported_and_others_work(rule, named, tmp_path) -> None:
    found = loaded(wrapped(rule))
    assert [good.record for good in found.groups[0].rules] == ["good"]
    assert {(error.group, error.rule, error.reason) for error in found.errors} == {("g", *named)}
    assert all(error.text for error in found.errors)
    if PROMTOOL:
        (tmp_path / "r.yaml").write_text(wrapped(rule))
        assert not promtool_accepts(tmp_path / "r.yaml")


@pytest.mark.parametrize("expr", ['"text"', "up[5m]"])
def test_rule_with_a_string_or_range_result_is_rejected_unlike_promtool(expr) -> None:
    (error,) = loaded(wrapped(f"{{record: bad, expr: '{expr}'}}")).errors
    assert (error.rule, error.reason) == ("bad", "type")


def test_unsupported_function_is_named() -> None:
    (error,) = loaded(wrapped("{record: bad, expr: 'holt_winters(up[5m], 0.5, 0.5)'}")).errors
    assert (error.rule, error.reason) == ("bad", "unsupported")
    assert "holt_winters" in error.text


def test_alerting_rules_are_ignored_and_reported_once() -> None:
    alert = "{alert: Down, expr: up == 0, for: 5m, labels: {a: b}, annotations: {c: d}}"
    found = loaded(wrapped(alert) + f"  - {alert}\n")
    assert [rule.record for rule in found.groups[0].rules] == ["good"]
    assert found.errors == ()
    (note,) = found.notes
    assert "group g: 2 alerting rules" in note


def test_interval_below_a_second_is_reported() -> None:
    found = loaded("groups: [{name: fast, interval: 100ms}]")
    assert found.groups[0].interval == 100
    assert "group fast" in found.notes[0]


def test_group_labels_apply_to_rules_that_do_not_override_them() -> None:
    """As in Prometheus since 3.0."""
    text = """
groups:
- name: g
  labels: {a: group, b: group}
  rules: [{record: x, expr: up, labels: {b: rule}}]
"""
    assert loaded(text).groups[0].rules[0].labels == (("a", "group"), ("b", "rule"))


def test_query_offset_other_than_zero_is_unsupported() -> None:
    assert loaded("groups: [{name: g, query_offset: 0s}]").errors == ()
    (error,) = loaded("groups: [{name: g, query_offset: 1m}]").errors
    assert (error.group, error.rule, error.reason) == ("g", "", "unsupported")


def test_yaml_aliases_cannot_multiply_rules_beyond_the_limit() -> None:
    """YAML aliases make a short text large."""
    groups = "groups:\n" + "".join(f"- {{name: g{i}, rules: *r}}\n" for i in range(100))
    text = groups.replace("*r", "&r [" + "{record: a, expr: up}," * 200 + "]", 1)
    with pytest.raises(RuleFileError, match="more than 10000 rules"):
        loaded(text)


def test_groups_of_one_name_are_distinguished_by_file() -> None:
    one = loaded("groups: [{name: a}, {name: b}]")
    other = loaded("groups: [{name: b, rules: [{record: x, expr: 'rate('}]}, {name: c}]")
    found = merged_files({"/one": one, "/other": other})
    assert [group.name for group in found.groups] == ["a", "/one;b", "/other;b", "c"]
    assert [error.group for error in found.errors] == ["/other;b"]


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed")
def test_promtool_accepts_the_valid_files(tmp_path) -> None:
    path = tmp_path / "r.yaml"
    path.write_text(GOOD)
    assert promtool_accepts(path)
