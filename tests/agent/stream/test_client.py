"""The agent's stream over real gRPC: real files and collector runs, and a scripted evaluator."""

from collectors.interface.sample import CollectorError
from plimsoll import VERSION
from tests.agent.stream.scripted import said
from wire import codec


async def test_stream_begins_with_the_node_name(states, evaluator):
    first = await (await evaluator.stream()).next()
    assert (first.node_name, first.agent_version) == ("node-a", VERSION)
    assert (first.generation, first.full, list(first.values)) == (0, False, [])
    assert states == []


async def test_first_report_is_complete(files, states, evaluator):
    files('node_health_metric 1\nload 2\nper_cpu{cpu="0"} 1\nper_cpu{cpu="1"} 1\n')
    asked = ("health_metric", "load", "missing", "per_cpu")
    stream = await evaluator.introduced(*asked)
    report = await stream.next()
    assert (report.node_name, report.generation, report.full) == ("node-a", 1, True)
    assert said(report, *asked) == {
        "health_metric": 1.0,
        "load": 2.0,
        "missing": "absent",
        "per_cpu": ("several", 2),
    }
    assert states == [True]


async def test_series_similar_to_absent_metrics_follow_the_full_report(files, states, evaluator):
    files("node_health_metric 1\nrack_inlet_celsius 30\n")
    asked = ("health_metric", "rack_inlet_celcius")
    stream = await evaluator.introduced(*asked)
    full = codec.decode(await stream.news(), asked)
    assert (full.values, full.similar) == ({"health_metric": 1.0}, {})
    names = codec.decode(await stream.news(), asked)
    assert (names.values, names.similar) == ({}, {"rack_inlet_celcius": ("rack_inlet_celsius",)})
    files("node_health_metric 2\nrack_inlet_celsius 30\n")
    changed = codec.decode(await stream.news(), asked)
    assert (changed.values, changed.similar) == ({"health_metric": 2.0}, {})


async def test_changed_file_is_reported_at_once_and_alone(files, states, evaluator):
    """The requested interval is an hour; only the file change can cause this report."""
    files("a 1\nb 1\n")
    stream = await evaluator.introduced("a", "b")
    await stream.next()
    files("a 1\nb 2\n")
    report = await stream.news()
    assert not report.full
    assert (list(report.indices), list(report.values)) == ([1], [2.0])
    assert not report.absent


async def test_hundred_changes_arrive_in_order(files, states, evaluator):
    files("a 0\n")
    stream = await evaluator.introduced("a")
    await stream.next()
    last = 0.0
    for value in range(1, 100):
        files(f"a {value}\n")
        while last < value:
            report = await stream.next()
            for seen in report.values:
                assert last < seen <= value
                last = seen


async def test_vanished_metric_is_reported_absent(files, states, evaluator):
    files("a 0\n")
    stream = await evaluator.introduced("a")
    assert said(await stream.next(), "a") == {"a": 0.0}
    files(None)
    assert said(await stream.news(), "a") == {"a": "absent"}


async def test_second_sample_removes_the_value_until_it_ends(files, states, evaluator):
    files("a 5\n")
    stream = await evaluator.introduced("a")
    await stream.next()
    files('a{x="1"} 5\na{x="2"} 5\n')
    assert said(await stream.news(), "a") == {"a": ("several", 2)}
    files("a 5\n")
    assert said(await stream.news(), "a") == {"a": 5.0}


async def test_heartbeat_at_its_interval_names_nothing(files, states, evaluator):
    files("a 1\n")
    stream = await evaluator.introduced("a", interval_ms=20)
    await stream.next()
    for _ in range(3):
        report = await stream.next()
        assert (report.node_name, report.generation, report.full) == ("node-a", 1, False)
        assert said(report, "a") == {}


async def test_empty_subscription_gets_heartbeats(states, evaluator, memory):
    stream = await evaluator.introduced(interval_ms=20)
    assert (await stream.next()).full
    assert not (await stream.next()).full
    assert memory.runs == 0


async def test_only_collectors_of_subscribed_metrics_run(files, states, evaluator, memory):
    files("a 1\n")
    stream = await evaluator.introduced("a", interval_ms=20)
    await stream.next()
    await stream.next()
    assert memory.runs == 0
    await stream.ask("memory_MemAvailable_bytes", generation=2, interval_ms=20)
    while (report := await stream.next()).generation == 1:
        pass
    assert said(report, "memory_MemAvailable_bytes") == {"memory_MemAvailable_bytes": 1.0}
    assert memory.runs > 0


async def test_failed_source_is_unread_and_not_absent(states, evaluator, memory):
    metric = "memory_MemAvailable_bytes"
    stream = await evaluator.introduced(metric, interval_ms=20)
    assert said(await stream.next(), metric) == {metric: 1.0}
    memory.error = CollectorError("the disk is on fire")
    while not (found := said(await stream.next(), metric)):
        pass
    assert found == {metric: "unread"}
    assert said(await stream.next(), metric) == {metric: "unread"}
    memory.error = None
    while (found := said(await stream.next(), metric)) == {metric: "unread"}:
        pass
    assert found == {metric: 1.0}


async def test_new_subscription_is_answered_at_once_and_in_full(files, states, evaluator):
    files("a 1\nb 2\n")
    stream = await evaluator.introduced("a")
    await stream.next()
    await stream.ask("b", "a", generation=7)
    report = await stream.news()
    assert (report.generation, report.full) == (7, True)
    assert said(report, "b", "a") == {"b": 2.0, "a": 1.0}
    files("a 3\nb 2\n")
    report = await stream.news()
    assert (report.generation, list(report.indices), list(report.values)) == (7, [1], [3.0])


async def test_last_of_many_subscriptions_is_answered(files, states, evaluator):
    files("a 1\n")
    stream = await evaluator.introduced("a")
    await stream.next()
    for generation in range(2, 50):
        await stream.ask("a", generation=generation)
    last = 1
    while last < 49:
        report = await stream.next()
        assert report.full == (report.generation > last)
        assert report.generation >= last
        last = report.generation
