"""Scorers by name: built-in, external, and errors.

The external one is that of docs/adding-a-scorer.md: built, installed, and loaded by a running evaluator.
"""

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import aiohttp
import pytest

from evaluator.config import Settings
from evaluator.features.scorers import registry
from evaluator.features.scorers.registry import ScorersError
from plimsoll import VERSION
from tests import preloaded
from tests.patience import PATIENCE
from tests.tuned_evaluator import tuned

ROOT = Path(__file__).parents[4]
LOOPBACK = ("--bindAddress=127.0.0.1", "--agentPort=0", "--opsPort=0", "--port=0")


def load(*names):
    return registry.load(Settings(scorers=names))


def test_no_scorers_by_default():
    assert load() == {}


def test_built_in_scorers_are_created_in_the_given_order():
    assert list(load("template", "safe,congestion")) == ["template", "safe", "congestion"]


@pytest.mark.parametrize("name", registry.BUILT_IN)
def test_each_built_in_scorer_declares_its_verbs(name):
    (scorer,) = load(name).values()
    assert [*scorer.predicates, *scorer.priorities]


def test_all_built_in_scorers_can_be_enabled_together():
    assert len(load(*registry.BUILT_IN)) == len(registry.BUILT_IN)


def test_unknown_name_is_rejected_with_the_known_ones():
    with pytest.raises(ScorersError, match=r"no scorer 'nonsense'; known: congestion, pigeon, .*"):
        load("safe,nonsense")


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Put a distribution with a module `odd` and a scorer `odd` on the path."""

    def install(code, *, point="odd:Odd", name="odd", distribution="its-name"):
        folder = tmp_path / distribution
        info = folder / f"{distribution.replace('-', '_')}-1.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1\n")
        (info / "entry_points.txt").write_text(f"[plimsoll.scorers]\n{name} = {point}\n")
        (folder / "odd.py").write_text(code)
        monkeypatch.syspath_prepend(str(folder))
        monkeypatch.delitem(sys.modules, "odd", raising=False)

    yield install
    sys.modules.pop("odd", None)


ODD = """
class Odd:
    predicates = ("odd",)
    priorities = ()
    metrics = ()
    def score(self, view, pod): ...
"""


def test_external_scorer_is_loaded_by_name(installed):
    installed(ODD)
    assert type(load("odd")["odd"]).__module__ == "odd"
    assert "odd" in registry.known()


def test_unnamed_external_scorer_is_not_imported(installed):
    installed("raise SystemExit('imported')")
    assert list(load("safe")) == ["safe"]
    assert "odd" not in sys.modules


@pytest.mark.parametrize(
    ("code", "point", "sentence"),
    [
        ("import nowhere_to_be_found", "odd:Odd", "No module named 'nowhere_to_be_found'"),
        ("", "odd:Odd", "has no attribute 'Odd'"),
        ("", "nowhere:Odd", "No module named 'nowhere'"),
        ("class Odd:\n  def __init__(self, more): ...", "odd:Odd", "TypeError"),
        ("class Odd:\n  def __init__(self): raise KeyError('k\\nl')", "odd:Odd", "KeyError: 'k"),
        ("x = (", "odd:Odd", "SyntaxError"),
    ],
)
def test_scorer_that_fails_to_load_is_reported_in_a_sentence(installed, code, point, sentence):
    installed(code, point=point)
    with pytest.raises(ScorersError) as caught:
        load("odd")
    told = str(caught.value)
    assert told.startswith(f"scorer 'odd' of its-name ({point}) cannot be loaded: ")
    assert sentence in told
    assert "\n" not in told


def test_invalid_scorer_is_reported_with_what_it_lacks(installed):
    installed("class Odd:\n  predicates = metrics = ()")
    with pytest.raises(ScorersError, match="is not a scorer: it lacks priorities, score"):
        load("odd")


@pytest.mark.parametrize("name", ["a/b", "", "a b", "..", "ä", "x" * 64, "a\\n"])
def test_name_that_cannot_end_a_path_is_reported(installed, name):
    installed(ODD.replace('("odd",)', f'("{name}",)'))
    with pytest.raises(ScorersError, match="is not a valid name of a predicate"):
        load("odd")


def test_names_given_as_one_string_are_reported(installed):
    installed(ODD.replace('("odd",)', '"odd"'))
    with pytest.raises(ScorersError, match="must be a sequence of strings"):
        load("odd")


def test_two_scorers_of_one_name_are_reported(installed):
    installed(ODD.replace('"odd"', '"template"'))
    with pytest.raises(ScorersError, match="'template' and 'odd' both have a predicate 'template'"):
        load("template,odd")


def test_two_distributions_with_one_scorer_name_are_reported(installed):
    installed(ODD)
    installed(ODD, point="odd:Other", distribution="other-name")
    with pytest.raises(
        ScorersError, match="more than one scorer 'odd': from its-name and other-name"
    ):
        load("odd")


def test_built_in_names_cannot_be_overridden(installed):
    installed("raise SystemExit('imported')", name="safe")
    assert type(load("safe")["safe"]).__module__ == "evaluator.features.scorers.plugins.safe"


def test_manual_shows_the_template_and_its_entry_point_unchanged():
    text = (ROOT / "docs" / "adding-a-scorer.md").read_text()
    shown, line, _ = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert shown in (ROOT / "evaluator" / "scoring" / "plugins" / "template.py").read_text()
    assert line in (ROOT / "evaluator" / "scorerhost" / "registry.py").read_text()


@pytest.fixture(scope="module")
def few_pods(tmp_path_factory):
    """The distribution of the manual, installed into a folder, which is returned."""
    text = (ROOT / "docs" / "adding-a-scorer.md").read_text()
    own = text[text.index("## Separate distribution") :]
    (module,) = re.findall(r"```python\n(.*?)```", own, re.DOTALL)
    (project,) = re.findall(r"```toml\n(.*?)```", own, re.DOTALL)
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("target")
    (source / "few_pods.py").write_text(module)
    (source / "pyproject.toml").write_text(project)
    run = [sys.executable, "-P", "-m"]
    subprocess.run([*run, "hatchling", "build", "-t", "wheel"], cwd=source, check=True, stdout=-3)
    (wheel,) = (source / "dist").glob("*.whl")
    pip = ["pip", "install", "--no-deps", "--no-index", "--quiet", "--target", str(target)]
    subprocess.run([*run, *pip, str(wheel)], check=True)
    return target


class Evaluator:
    """A process that prints its ports on stderr."""

    def __init__(self, process):
        self.process = process
        self.ports = {}

    async def listening(self, *servers):
        async with asyncio.timeout(PATIENCE):
            while not self.ports.keys() >= set(servers):
                line = (await self.process.stderr.readline()).decode()
                assert line, "it ended"
                if found := re.search(r"msg=listening server=(\S+) address=\S*:(\d+)", line):
                    self.ports[found[1]] = int(found[2])


@pytest.fixture
async def start(kubeconfig, tmp_path):
    started = []

    async def start(*argv, url="http://127.0.0.1:1", path="", program=("-m", "evaluator")):
        env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(path)}
        flags = ("--unsafe", "--log.format=logfmt", "--kubeConfig", kubeconfig(url), *LOOPBACK)
        command = (sys.executable, "-P", *program, *flags, *argv)
        pipe = asyncio.subprocess.PIPE
        if path:  # Python reads PYTHONPATH when it starts
            process = await asyncio.create_subprocess_exec(*command, stderr=pipe, env=env)
        else:
            process = await preloaded.start(command, env, stderr=pipe)
        started.append(process)
        return Evaluator(process)

    yield start
    for process in started:
        if process.returncode is None:
            process.kill()
        await process.stderr.read()
        await process.wait()


@pytest.mark.e2e
async def test_external_scorer_answers_a_scheduler(few_pods, start, api):
    await api.policies()
    for name, pods in (("node-a", "10"), ("node-b", "0")):
        node = {"metadata": {"name": name}, "status": {"allocatable": {"pods": pods}}}
        await api.call("POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", **node})
    containers = [{"name": "c", "image": "i"}]
    for number in range(3):
        pod = {
            "metadata": {"name": f"p{number}"},
            "spec": {"nodeName": "node-a", "containers": containers},
        }
        await api.call("POST", "/api/v1/namespaces/default/pods", pod)
    evaluator = await start(
        "--scorers=few-pods,template", "--scorerPorts=few-pods=0", url=api.url, path=few_pods
    )
    await evaluator.listening("ops", "extender", "scorer-few-pods")
    question = {
        "Pod": {
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {"containers": containers},
        },
        "NodeNames": ["node-a", "node-b"],
    }
    async with aiohttp.ClientSession() as session:
        ready = f"http://127.0.0.1:{evaluator.ports['ops']}/readyz"
        async with asyncio.timeout(PATIENCE):
            while (await session.get(ready)).status != 200:  # noqa: ASYNC110 (no way to be told)
                await asyncio.sleep(0.01)

        async def ask(server, path):
            url = f"http://127.0.0.1:{evaluator.ports[server]}{path}"
            async with session.post(url, data=json.dumps(question)) as response:
                return response.status, await response.json()

        for server in ("extender", "scorer-few-pods"):
            status, scores = await ask(server, "/scorers/few-pods/prioritize")
            assert status == 200
            assert scores == [{"Host": "node-a", "Score": 7}, {"Host": "node-b", "Score": 0}]
            status, reply = await ask(server, "/scheduler/predicates/few-pods")
            assert reply["FailedNodes"] == {"node-b": "the node is full of pods"}
        assert (await ask("extender", "/scheduler/filter"))[0] == 200
        assert (await ask("scorer-few-pods", "/scheduler/filter"))[0] == 404
        assert (await ask("extender", "/scorers/template/filter"))[0] == 200
        assert (await ask("scorer-few-pods", "/scorers/template/filter"))[0] == 404


@pytest.mark.e2e
async def test_unknown_scorer_exits_with_status_2(few_pods, start):
    evaluator = await start("--scorers=safe,fewpods", path=few_pods)
    _, text = await evaluator.process.communicate()
    assert evaluator.process.returncode == 2
    (line,) = text.decode().splitlines()
    assert "no scorer 'fewpods'; known: congestion, few-pods, pigeon" in line


@pytest.mark.e2e
async def test_scorer_port_accepts_the_clients_of_the_scheduler_port(start, authority, dial):
    cert, key = authority.issue("evaluator")
    files = (f"--cert={cert}", f"--key={key}", f"--cacert={authority.file}", "--agentUnsafe")
    flags = ("--scorers=template", "--scorerPorts=template=0")
    small = tuned(limits={"body_bytes": 1 << 10})
    evaluator = await start("--unsafe=false", *files, *flags, program=small)
    await evaluator.listening("extender", "scorer-template")
    scheduler = authority.client(*authority.issue("kube-scheduler"))
    for server in ("extender", "scorer-template"):
        peer = await dial(evaluator.ports[server], scheduler)
        reply = await peer.ask(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (reply.status, reply.body.strip()) == (200, VERSION.encode())
        # Nothing was listed yet: there is no API server.
        asked = b'{"Pod":{"metadata":{"name":"web"}},"NodeNames":["a"]}'
        head = b"POST /scorers/template/filter HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
        reply = await peer.ask(head % len(asked) + asked)
        assert reply.status == 503
        assert "waiting for nodes, all pods" in json.loads(reply.body)["Error"]
        assert (await peer.ask(head % 1025)).status == 413
        with pytest.raises((OSError, EOFError)):
            await (await dial(evaluator.ports[server], authority.client())).ask(
                b"GET / HTTP/1.1\r\n\r\n"
            )


@pytest.mark.e2e
async def test_unavailable_scorer_port_exits_with_status_1(start):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        evaluator = await start("--scorers=template", f"--scorerPorts=template={number}")
        text = await evaluator.process.stderr.read()
    assert await evaluator.process.wait() == 1
    assert str(number) in text.decode().splitlines()[-1]
