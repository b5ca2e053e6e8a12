"""From files on a node to readings in the store: the real agent and the evaluator's server."""

import asyncio

import pytest

from agent.rules.engine import RuleEngine
from agent.rules.options import RuleOptions
from agent.scrape.runner import CollectorRunner
from agent.stream.client import StreamClient, Target
from collectors.textfile import Options, TextFile
from evaluator.core.loop.subscription import Subscriptions
from evaluator.core.readings.store import Store
from evaluator.core.signals import AgentReported, MatchingNamesReported, Signals, on
from evaluator.core.sources.agents.grpc_port import GrpcPort
from evaluator.core.sources.agents.server import AgentServer
from plimsoll.backoff import Backoff
from tests.patience import PATIENCE


class RealEvaluator:
    """The evaluator's end of the stream."""

    def __init__(self, *patterns):
        self.matching = []
        self.store = Store(stale_after=30.0, started=0.0)
        self.subscriptions = Subscriptions()
        self._told = asyncio.Condition()
        signals = Signals()
        signals.connect(
            [on(AgentReported, self.reported), on(MatchingNamesReported, self.matching_reported)]
        )
        self.agents = AgentServer(
            self.store,
            self.subscriptions,
            interval=3600.0,
            publish=signals.publish,
            patterns=patterns,
        )

    def want(self, *metrics):
        self.store.subscribe(metrics)
        self.subscriptions.want(metrics)

    def matching_reported(self, report):
        self.matching.extend(report.names)

    def reported(self, _report):
        self._task = asyncio.get_running_loop().create_task(self._tell())

    async def _tell(self):
        async with self._told:
            self._told.notify_all()

    async def reads(self, metric, samples, value=None):
        def as_wanted():
            found = self.store.reading(metric, "node-a")
            fits = value is None or found.value == value
            return found.at > 0 and found.samples == samples and fits

        async with asyncio.timeout(PATIENCE), self._told:
            await self._told.wait_for(as_wanted)


@pytest.fixture
def files(tmp_path):
    """Write a .prom file atomically, as an operator's script should; None deletes it."""

    def write(text):
        path = tmp_path / "text.prom"
        if text is None:
            path.unlink()
        else:
            aside = tmp_path / "text.prom.tmp"
            aside.write_text(text)
            aside.rename(path)

    return write


@pytest.fixture
async def stream_to(tmp_path, background):
    """Stream the files' metrics to a port, as node-a."""
    rounds = CollectorRunner({"textfile": TextFile(Options((str(tmp_path),)))})

    def start(port):
        target = Target(f"127.0.0.1:{port}", "node-a")
        backoff = Backoff(lambda: 0.0, first=0.01, longest=0.1)
        background(StreamClient(target, rounds, backoff=backoff).run())

    yield start
    rounds.close()


async def test_files_become_readings_in_the_real_evaluator(files, stream_to):
    files("node_health_metric 0\n")
    real = RealEvaluator()
    real.want("health_metric")
    port = await real.agents.start(GrpcPort("127.0.0.1:0"))
    stream_to(port)
    await real.reads("health_metric", 1, 0.0)
    files("node_health_metric 2\n")
    await real.reads("health_metric", 1, 2.0)
    files('node_health_metric{disk="a"} 2\nnode_health_metric{disk="b"} 2\n')
    await real.reads("health_metric", 2)
    real.want("health_metric", "load")
    files("node_health_metric 1\nload 7\n")
    await real.reads("load", 1, 7.0)
    await real.reads("health_metric", 1, 1.0)
    files(None)
    await real.reads("load", 0)

    await real.agents.stop()
    reborn = RealEvaluator()
    reborn.want("load")
    files("load 9\n")
    await reborn.agents.start(GrpcPort(f"127.0.0.1:{port}"))
    await reborn.reads("load", 1, 9.0)
    await reborn.agents.stop()


async def test_names_that_match_patterns_are_reported(files, stream_to, until):
    files('load_a 1\nload_b{disk="a"} 1\nload_b{disk="b"} 1\nnode_load_c 1\nother 1\n')
    real = RealEvaluator("load_*")
    stream_to(await real.agents.start(GrpcPort("127.0.0.1:0")))
    await until(lambda: real.matching == ["load_a", "load_c"])
    real.want(*real.matching)
    await real.reads("load_c", 1, 1.0)
    assert real.matching == ["load_a", "load_c"]
    await real.agents.stop()


def pace(recorder):
    """Seconds between two evaluations."""
    families = {family.name: family for family in recorder.accounts()}
    return families["plimsoll_rule_group_interval_seconds"].samples[0].value


async def test_recorded_series_becomes_a_reading_within_its_second(
    files, tmp_path, background, until
):
    """Only the change causes these reports: regular ones are hourly, and the group's interval is a day."""
    (tmp_path / "r.yaml").write_text(
        "groups:\n- name: g\n  interval: 1d\n  rules:\n"
        "  - {record: node_used_ratio, expr: node_used / node_size}\n"
        "  - {record: node_each, expr: node_part}\n"
    )
    files('node_used 10\nnode_size 100\nnode_part{p="a"} 1\nnode_part{p="b"} 1\n')
    rounds = CollectorRunner({"textfile": TextFile(Options((str(tmp_path),)))})
    recorder = RuleEngine(rounds, RuleOptions(files=(str(tmp_path / "*.yaml"),)))
    background(recorder.run())
    real = RealEvaluator()
    real.want("used_ratio", "node_each")
    target = Target(f"127.0.0.1:{await real.agents.start(GrpcPort('127.0.0.1:0'))}", "node-a")
    background(StreamClient(target, rounds, recorded=recorder).run())
    await real.reads("used_ratio", 1, 0.1)
    await real.reads("node_each", 2)
    await until(lambda: pace(recorder) == 1)
    files("node_used 90\nnode_size 100\n")
    await real.reads("used_ratio", 1, 0.9)
    await real.reads("node_each", 0)
    files(None)
    await real.reads("used_ratio", 0)
    await real.agents.stop()
    await until(lambda: pace(recorder) == 86400)
    rounds.close()


async def test_forgotten_node_starts_over(files, stream_to):
    files("a 1\nb 1\n")
    real = RealEvaluator()
    real.want("a", "b")
    stream_to(await real.agents.start(GrpcPort("127.0.0.1:0")))
    await real.reads("b", 1, 1.0)
    real.store.forget("node-a")
    files("a 2\nb 1\n")
    await real.reads("a", 1, 2.0)
    await real.reads("b", 1, 1.0)
    await real.agents.stop()
