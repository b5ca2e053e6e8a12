"""Rows by node name: in the requested order, looked up once per node list."""

from evaluator.core.readings.tables import RowIndex


def test_rows_are_found_in_the_requested_order():
    roster = RowIndex(["a", "b"])
    assert roster.find(("b", "x", "a")).tolist() == [1, -1, 0]


def test_node_list_is_looked_up_once_for_many_columns():
    roster, nodes = RowIndex(["a", "b"]), ("b", "a")
    assert roster.find(nodes) is roster.find(nodes)


def test_node_list_is_looked_up_again_after_a_node_change():
    roster, nodes = RowIndex(["a"]), ("a", "b")
    assert roster.find(nodes).tolist() == [0, -1]
    roster.put("b", 7)
    assert roster.find(nodes).tolist() == [0, 7]
    assert roster.drop("a") == 0
    assert roster.drop("a") is None
    assert roster.find(nodes).tolist() == [-1, 7]


def test_mutable_list_is_looked_up_each_time():
    roster, nodes = RowIndex(["a", "b"]), ["a"]
    assert roster.find(nodes).tolist() == [0]
    nodes[0] = "b"
    assert roster.find(nodes).tolist() == [1]
