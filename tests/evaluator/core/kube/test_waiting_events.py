"""Events that wait: places per node, and the nodes in turn."""

from evaluator.core.kube.waiting_events import MOST, MOST_OF_NODE, NodeEvent, WaitingEvents
from evaluator.core.model.events import MOST_TIMES

EVENT = NodeEvent("kernel", "TaskHung", "task a:1 hangs", 1)


def add(waiting, node, number=1):
    return sum(waiting.add(node, EVENT._replace(source=f"s{n}")) for n in range(number))


def popped(waiting):
    return [waiting.pop()[0] for _ in range(len(waiting))]


def test_nodes_take_turns_and_the_events_of_each_keep_their_order():
    waiting = WaitingEvents()
    add(waiting, "a", 3)
    add(waiting, "b", 2)
    add(waiting, "c")
    assert [(key.node, key.source) for key in popped(waiting)] == [
        ("a", "s0"), ("b", "s0"), ("c", "s0"), ("a", "s1"), ("b", "s1"), ("a", "s2")
    ]  # fmt: skip


def test_one_node_takes_its_own_places_only():
    waiting = WaitingEvents()
    assert add(waiting, "hostile", 500) == MOST_OF_NODE
    assert add(waiting, "honest", 5) == 5
    assert [key.node for key in popped(waiting)][:4] == ["hostile", "honest", "hostile", "honest"]


def test_node_without_an_event_has_a_place_when_all_are_taken():
    waiting = WaitingEvents()
    for number in range(MOST // MOST_OF_NODE):
        add(waiting, f"hostile-{number}", MOST_OF_NODE)
    assert add(waiting, "honest", 2) == 1
    assert len(waiting) == MOST + 1


def test_times_of_an_event_that_waits_add_up_to_a_bound():
    waiting = WaitingEvents()
    for times in (3, 4):
        assert waiting.add("a", EVENT._replace(times=times))
    assert waiting.pop()[1].times == 7
    for _ in range(2):
        waiting.add("a", EVENT._replace(times=MOST_TIMES, message="last"))
    assert waiting.pop()[1] == EVENT._replace(times=MOST_TIMES, message="last")
    assert len(waiting) == 0
