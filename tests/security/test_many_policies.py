"""Thousands of policies of one tenant: no step between two requests of kube-scheduler grows with them.

The tests count calls: wall time depends on the machine's other work.
"""

from evaluator.core.policy.decide import deciding
from evaluator.core.policy.parse import parse
from evaluator.core.readings.store import Store
from tests.evaluator.conftest import make_rule, make_tas
from tests.evaluator.core.loop.counted_steps import NODES, NOW, most_calls
from tests.evaluator.core.loop.loop_world import DecisionLoopWorld
from wire.codec import Delta

FEW, MANY = 600, 3000
VALUES = {f"m{number}": 3.0 for number in range(5)}


def policies(count):
    """Policies in no order, as watches report them."""
    rules = [make_rule(f"m{number % 5} GreaterThan {number % 7}") for number in range(count)]
    made = [
        parse(make_tas(f"p{number}", "tenant", dontschedule=[one]))
        for number, one in enumerate(rules)
    ]
    return made[::2] + made[1::2]


def calls_of_decisions(count):
    """The calls of the heaviest step of a first decision, and of the next one, in which nothing changed."""
    store, found = Store(stale_after=30.0, started=0.0), policies(count)
    store.subscribe(VALUES)
    for node in NODES:
        store.report(node, Delta(VALUES), NOW)
    first, before = most_calls(deciding(found, NODES, store, now=NOW))
    second, _ = most_calls(deciding(found, NODES, store, now=NOW + 1, before=before))
    return first, second


def test_no_step_of_a_decision_grows_with_the_policies_of_a_tenant():
    few, many = calls_of_decisions(FEW), calls_of_decisions(MANY)
    assert many[0] <= 1.5 * few[0]
    assert many[1] <= 1.5 * few[1]


def test_no_step_of_an_evaluation_grows_with_the_policies_of_a_tenant():
    def heaviest(count):
        world = DecisionLoopWorld()
        world.know(*policies(count))
        world.decider.evaluate()  # subscribes to the metrics
        for node in ("node-a", "node-b"):
            world.store.report(node, Delta(VALUES), world.clock.now)
        world.decider.evaluate()
        assert not world.decider.waiting_for
        world.store.report("node-a", Delta({"m0": 9.0}), world.clock.now)
        return most_calls(world.decider._evaluation())[0]

    assert heaviest(MANY) <= 1.5 * heaviest(FEW)
