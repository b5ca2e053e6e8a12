"""The file of queries: its format, error messages, and reloading."""

import pytest

from evaluator.core.sources.prometheus import Queries, QueriesError, parse_queries

GOOD = """
# what a policy calls it: what Prometheus is asked
memory_pressure: node_pressure_memory_waiting_seconds_total
cpu_busy: |
  1 - avg by (node) (rate(node_cpu_seconds_total{mode="idle"}[1m]))
one: 1
"""


def test_mapping_of_names_to_queries_is_read():
    assert parse_queries(GOOD) == {
        "memory_pressure": "node_pressure_memory_waiting_seconds_total",
        "cpu_busy": '1 - avg by (node) (rate(node_cpu_seconds_total{mode="idle"}[1m]))\n',
        "one": "1",
    }
    assert parse_queries('{"a": "b"}') == {"a": "b"}
    assert parse_queries("# nothing yet") == {}
    assert parse_queries("a: !!python/object:os.system x") == {
        "a": "x"
    }  # YAML tags create no objects


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("- a\n", "not a mapping"),
        ("a", "not a mapping"),
        ("a:\n", "a: its query is not a string"),
        ("a: [x]", "a: its query is not a string"),
        ("a: {x: y}", "a: its query is not a string"),
        ("'': x", "not a metric name"),
        ("a: 1\na: 2", "a appears twice"),
        ("a: {", "not YAML"),
        ("? [x]\n: y", "not YAML"),
    ],
)
def test_mistake_is_reported_in_a_sentence(tmp_path, text, says):
    with pytest.raises(ValueError, match=r"^[^\n]*$") as caught:
        parse_queries(text)
    assert says in str(caught.value)
    path = tmp_path / "q.yaml"
    path.write_text(text)
    with pytest.raises(QueriesError, match=f"--prometheusQueries {path}: "):
        Queries(str(path))


def test_no_file_means_no_query_and_a_missing_one_is_an_error(tmp_path):
    assert Queries("").of("a") is None
    with pytest.raises(QueriesError, match="No such file"):
        Queries(str(tmp_path / "none"))


def test_binary_file_is_an_error(tmp_path):
    path = tmp_path / "q.yaml"
    path.write_bytes(b"a: \xff")
    with pytest.raises(QueriesError, match="utf-8"):
        Queries(str(path))


def test_changed_file_takes_effect_and_an_invalid_one_does_not(tmp_path, log_lines):
    lines = log_lines("logfmt")
    path = tmp_path / "q.yaml"
    path.write_text("a: one")
    found = Queries(str(path))
    assert found.of("a") == "one"
    path.write_text("a: second")
    assert (found.of("a"), found.of("b")) == ("second", None)
    path.write_text("a: {")
    assert (found.of("a"), found.of("a")) == ("second", "second")
    path.unlink()
    assert (found.of("a"), found.of("a")) == ("second", "second")
    path.write_text("b: third one")
    assert (found.of("a"), found.of("b")) == (None, "third one")
    told = [line.partition(" msg=")[2] for line in lines()]
    assert [line.startswith('"queries not reloaded') for line in told] == [False, True, True, False]
