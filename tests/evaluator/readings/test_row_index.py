"""Rows by node name: found in the order asked for, once for each list of nodes, and anew when a node came or went."""

from evaluator.readings.row_index import RowIndex


def test_rows_are_found_in_the_order_asked_for():
    roster = RowIndex(["a", "b"])
    assert roster.find(("b", "x", "a")).tolist() == [1, -1, 0]


def test_a_list_is_looked_up_once_however_many_columns_are_read_over_it():
    roster, nodes = RowIndex(["a", "b"]), ("b", "a")
    assert roster.find(nodes) is roster.find(nodes)


def test_and_anew_when_a_node_came_or_went():
    roster, nodes = RowIndex(["a"]), ("a", "b")
    assert roster.find(nodes).tolist() == [0, -1]
    roster.put("b", 7)
    assert roster.find(nodes).tolist() == [0, 7]
    assert roster.drop("a") == 0
    assert roster.drop("a") is None
    assert roster.find(nodes).tolist() == [-1, 7]


def test_a_list_that_can_change_is_looked_up_each_time():
    roster, nodes = RowIndex(["a", "b"]), ["a"]
    assert roster.find(nodes).tolist() == [0]
    nodes[0] = "b"
    assert roster.find(nodes).tolist() == [1]
