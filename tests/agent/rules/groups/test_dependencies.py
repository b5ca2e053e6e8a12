"""Dependencies between groups, their order of evaluation, and the collectors they need."""

import pytest

from agent.rules.groups import dependencies
from agent.rules.groups.file import Group, Rule
from agent.rules.promql.expression import parse


def group(name: str, **rules: str) -> Group:
    return Group(name, tuple(Rule(record, parse(text)) for record, text in rules.items()))


def order(*groups: Group) -> list[str]:
    return [found.name for found in dependencies.ordered(groups)]


def test_groups_keep_their_order_unless_one_depends_on_another() -> None:
    assert order(group("b", b="x"), group("a", a="y"), group("c", c="z")) == ["b", "a", "c"]
    assert order(group("b", b="a"), group("a", a="c"), group("c", c="z")) == ["c", "a", "b"]


def test_groups_of_a_cycle_are_ordered_too() -> None:
    assert sorted(order(group("a", a="c"), group("b", b="a"), group("c", c="b"))) == [*"abc"]
    assert order(group("a", a="a offset 1m")) == ["a"]


def test_long_dependency_chain_is_ordered() -> None:
    groups = [group(f"g{i}", **{f"m{i}": f"m{i + 1}"}) for i in range(300)]
    assert order(*groups) == [f"g{i}" for i in reversed(range(300))]


@pytest.mark.parametrize(
    ("text", "builds"),
    [
        ("recorded", True),
        ("recorded_too", False),
        ('{__name__=~"rec.*"}', True),
        ('{__name__=~"rec"}', False),
        ('{__name__!="recorded", job="x"}', False),
        ('{job="x"}', True),
        ("sum(rate(recorded[5m])) or vector(0)", True),
        ("max_over_time(rate(recorded[5m])[1h:]) > 3", True),
    ],
)
def test_group_depends_on_groups_whose_results_its_selectors_may_match(text, builds) -> None:
    found = dependencies.dependencies([group("a", recorded="1"), group("b", b=text)])
    assert found == {"a": frozenset(), "b": frozenset({"a"} if builds else ())}


def test_closure_contains_indirect_dependencies() -> None:
    groups = [group("a", a="b"), group("b", b="c"), group("c", c="x"), group("d", d="y")]
    wanted = dependencies.dependencies(groups)
    assert dependencies.closure(["a"], wanted) == {"a", "b", "c"}
    assert dependencies.closure([], wanted) == frozenset()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a", {"of_a"}),
        ("a / b", {"of_a", "of_b"}),
        ("rate(a_bucket[5m])", {"of_a"}),
        ("nothing", set()),
        ("vector(1)", set()),
        ('{l="x"}', {"of_a", "of_b", "of_c"}),
        ('success{collector="of_c"}', {"of_c"}),
        ('success{collector!="of_c"}', {"of_a", "of_b"}),
        ("success", {"of_a", "of_b", "of_c"}),
    ],
)
def test_collectors_of_an_expression_are_found(text, names) -> None:
    def serving(metrics):
        return {f"of_{metric}" for metric in metrics if metric in {"a", "b", "c"}}

    enabled = ["of_a", "of_b", "of_c"]
    assert dependencies.collectors(parse(text).needs, serving, enabled, {"success"}) == names


def test_excerpts_have_the_rules_behind_some_metrics_only() -> None:
    groups = [
        group("base", a="x", b="y", c="rate(a[1m])"),
        group("top", d="a + 1", e="b", f="d"),
        group("other", g="z"),
    ]
    found = dependencies.excerpts(groups, {"f", "unknown"})
    assert {name: [rule.record for rule in part.rules] for name, part in found.items()} == {
        "base": ["a"],
        "top": ["d", "f"],
    }
    assert dependencies.excerpts(groups, ()) == {}


def test_excerpt_of_a_rule_that_reads_its_own_past_ends() -> None:
    found = dependencies.excerpts([group("a", b="max_over_time(c[1h])", c="b or x")], {"b"})
    assert [rule.record for rule in found["a"].rules] == ["b", "c"]


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("rate(x[1m]) + avg_over_time(y[5m])", True),
        ("b", True),
        ("increase(x[6m])", False),
        ("max_over_time(b[1m])", False),
        ("b offset 1m", False),
        ('count_over_time({job="x"}[1m])', False),
    ],
)
def test_group_that_reads_minutes_of_collected_series_is_short(text, short) -> None:
    groups = [group("a", a=text), group("b", b="x")]
    assert dependencies.is_short(groups[0], groups) is short
