"""What is known of the stop, and what statuses, pages and metrics say."""

from types import SimpleNamespace

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from evaluator.core.model.names import PolicyKey
from evaluator.core.signals import Acted, PolicyReportChanged, StopsChanged
from evaluator.features.stop.entries import StopObject, parse
from evaluator.features.stop.feature import StopMetrics, StopReport
from evaluator.features.stop.state import StopState

KEY = PolicyKey("shop", "web")
DECISION = SimpleNamespace(policy=SimpleNamespace(key=KEY))


class World:
    def __init__(self):
        self.now, self.published = 1000.0, []
        self.state = StopState(self.published.append, lambda: self.now)
        self.registry = CollectorRegistry()
        self.metrics = StopMetrics(self.registry)
        self.report = StopReport(self.state, self.metrics)

    def listed(self, *objects):
        for _ in self.state.replacing(list(objects)):
            pass
        self.report.changed()

    def put(self, data, name="plimsoll-stop"):
        entries = ",".join(f'"{key}":"{text}"' for key, text in data.items())
        raw = f'{{"metadata":{{"name":"{name}"}},"data":{{{entries}}}}}'
        self.state.put(parse(raw.encode()))
        self.report.changed()

    def series(self):
        """The series of a scrape."""
        families = text_string_to_metric_families(generate_latest(self.registry).decode())
        samples = [sample for family in families for sample in family.samples]
        stopped = [sample for sample in samples if sample.name == "plimsoll_stopped"]
        labels = ("namespace", "policy", "mode", "why")
        return {tuple(map(sample.labels.get, labels)): sample.value for sample in stopped}


@pytest.fixture
def world():
    return World()


def test_nothing_new_is_done_before_the_first_list(world):
    assert not world.state.stops.permit(KEY)
    assert not world.state.settled
    (condition,) = world.report.part(DECISION).conditions
    assert (condition.type, condition.status, condition.reason) == ("Stopped", "Unknown", "NotRead")
    assert world.report.notices()
    world.now += 11
    assert world.state.settled  # a missing right is said in statuses
    world.listed()
    assert world.state.stops.permit(KEY)
    assert (world.report.notices(), world.report.part(DECISION).conditions) == ([], ())


def test_stop_is_said_everywhere_and_ends_with_the_object(world):
    world.listed()
    world.published.clear()
    world.put({"all": "migration"})
    kinds = [type(signal) for signal in world.published]
    assert kinds == [Acted, StopsChanged, PolicyReportChanged]
    part = world.report.part(DECISION)
    (condition,) = part.conditions
    assert (condition.status, condition.reason) == ("True", "Frozen")
    assert condition.message == (
        "frozen: no eviction, and no change of nodes; what stands stays (by an unknown user: migration)"
    )
    assert [*part.episodes.values()] == [True]
    assert world.report.notices() == ["all policies are frozen (by an unknown user: migration)"]
    assert world.report.listed(DECISION).stopped == "freeze"
    assert world.report.policy(DECISION).stopped.reason == "migration"
    assert world.report.evaluator().stop.read is True
    assert world.series() == {("", "", "freeze", "by an unknown user: migration"): 1.0}
    world.put({"all": "migration"})  # an edit that changes nothing
    assert len(world.published) == 3
    world.state.drop(StopObject())
    world.report.changed()
    sentence = "all policies are frozen (by an unknown user: migration)"
    assert world.published[3] == Acted("resumed", text=sentence, topic=sentence)
    assert world.state.stops.permit(KEY)
    assert world.series() == {}


def test_other_objects_are_ignored(world):
    world.listed()
    world.put({"all": ""}, name="other")
    world.state.drop(StopObject("other"))
    assert world.state.stops.permit(KEY)


def test_age_grows_while_the_watch_is_lost_and_the_last_object_holds(world):
    world.listed()
    world.put({"shop.web": ""})
    world.state.alive()
    world.now += 100
    assert world.state.age == 100
    assert not world.state.stops.permit(KEY)


def test_notices_of_many_entries_are_counted(world):
    world.listed()
    world.put({f"shop.p{number:03}": "" for number in range(300)})
    assert len(world.report.notices()) == 11
    assert world.report.notices()[-1] == "and 290 more are stopped"
    assert len(world.series()) == 300


def test_texts_of_an_entry_are_one_bounded_line_of_a_scrape(world):
    world.listed()
    world.put({"all": r"a\"} 1\nplimsoll_leader 1 \u001b" + "x" * 10_000})
    ((*_, why),) = world.series()
    assert why.startswith(r'by an unknown user: a"} 1 plimsoll_leader 1 \u001bxxx')
    assert len(why) == 200
