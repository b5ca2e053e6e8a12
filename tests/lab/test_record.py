"""`plimsoll record`: real agents stream to it, it is killed and started again, and the backtest reads its files."""

import json
import shutil
import sys

import pytest
import yaml

from lab import record
from lab.backtest import main as backtest
from tests.evaluator.conftest import make_tas
from tests.evaluator.core.sources.conftest import run as run
from tests.evaluator.core.sources.test_secured import Pki
from tests.eventually import eventually
from tests.lab.backtest.read import read

EVALUATOR = (sys.executable, "-P", "-m", "evaluator", "record")
AGENT = (sys.executable, "-P", "-m", "agent")
RULE = {"metricname": "health", "operator": "Equals", "target": 1}
LISTENING = r"msg=recording address=127\.0\.0\.1:(\d+)"
LOOPBACK = ("--bindAddress=127.0.0.1", "--every=1s")


@pytest.fixture(scope="module")
def pki(tmp_path_factory):
    if not shutil.which("openssl"):
        pytest.skip("openssl is not on PATH")
    made = Pki(tmp_path_factory.mktemp("pki"))
    made.issue("server", "/CN=evaluator", san="IP:127.0.0.1")
    for node in ("node-a", "node-b"):
        made.issue(node, f"/CN={node}", usage="clientAuth")
    return made


class Agents:
    """Agents of two nodes with a .prom file each."""

    def __init__(self, run, folder, pki):
        self._run = run
        self._folder = folder
        self._pki = pki

    async def start(self, port):
        for node in ("node-a", "node-b"):
            (self._folder / node).mkdir()
            self.write(node, 0)
            await self._run(
                *(*AGENT, f"--node.name={node}", f"--evaluator.address=127.0.0.1:{port}"),
                *("--collector.disable-defaults", "--collector.textfile"),
                f"--collector.textfile.directory={self._folder / node}",
                "--web.listen-address=127.0.0.1:0",
                f"--evaluator.tls.ca-file={self._pki.path('ca.crt')}",
                f"--evaluator.tls.cert-file={self._pki.path(f'{node}.crt')}",
                f"--evaluator.tls.key-file={self._pki.path(f'{node}.key')}",
            )

    def write(self, node, health):
        aside = self._folder / "aside"
        aside.write_text(f"node_health {health}\n")
        aside.rename(self._folder / node / "health.prom")


@pytest.mark.e2e
async def test_all_nodes_are_recorded_also_after_a_kill_and_the_backtest_reads_it(
    run, tmp_path, capsys, pki
):
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump(make_tas("p", dontschedule=[RULE])))
    policy, out = str(tmp_path / "policy.yaml"), tmp_path / "out"
    certificates = (
        f"--agentCert={pki.path('server.crt')}",
        f"--agentKey={pki.path('server.key')}",
        f"--agentCacert={pki.path('ca.crt')}",
    )
    command = (*EVALUATOR, "-f", policy, f"--dir={out}", *LOOPBACK, *certificates)
    recorder = await run(*command, "--agentPort=0")
    port = int((await recorder.said(LISTENING))[1])
    agents = Agents(run, tmp_path, pki)
    await agents.start(port)

    def values(node):
        return [v for _, v in read(*out.iterdir()).get(("health", ("node", node)), ())]

    await eventually(lambda: values("node-a") and values("node-b"))
    agents.write("node-a", 1)
    await eventually(lambda: 1 in values("node-a"))
    await recorder.kill()  # SIGKILL
    before = len(values("node-b"))
    again = await run(*command, f"--agentPort={port}")
    await again.said(LISTENING)
    await eventually(lambda: len(values("node-b")) > before)
    agents.write("node-a", 0)
    await eventually(lambda: values("node-a")[-1] == 0)
    again.terminate()
    await again.said("samples of 2 nodes in")

    files = [str(file) for file in out.iterdir()]
    assert all(file.read_text().count("# EOF\n") == 1 for file in out.iterdir())
    assert backtest.main(["-f", policy, "--openmetrics", *files, "--step=1s", "-o", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["policies"]
    assert [*found["nodes"]] == ["node-a"]
    assert len(found["nodes"]["node-a"]["intervals"]) == 1


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--dir=x", "--agentUnsafe"], "no metrics: name policies with -f"),
        (["--metrics=a", "--agentUnsafe"], "--dir is missing"),
        (["--metrics=a", "--dir=x"], "--agentCert and --agentKey are missing"),
        (
            ["--metrics=a", "--dir=x", "--agentCert=c", "--agentKey=k"],
            "--agentCacert is missing: name the CA of the agents' certificates",
        ),
        (["--metrics=a b"], "--metrics: not the name of a metric: 'a b'"),
        (["--metrics=a", "--dir=x", "--agentUnsafe", "--every=0s"], "--every must be at least 1s"),
    ],
)
def test_mistakes_get_one_sentence(flags, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        record.main(flags)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_without_any_report_the_exit_status_is_2(tmp_path, capsys):
    flags = [f"--dir={tmp_path}", "--metrics=a", "--agentPort=0", "--for=1ms", "--agentUnsafe"]
    flags += LOOPBACK
    assert record.main(flags) == 2
    assert "0 samples of 0 nodes" in capsys.readouterr().err


def test_a_missing_certificate_names_the_flag(tmp_path, capsys):
    files = [f"--{flag}=/no/{flag}" for flag in ("agentCert", "agentKey", "agentCacert")]
    assert record.main([f"--dir={tmp_path}", "--metrics=a", "--agentPort=0", *files]) == 1
    assert "/no/agentCert with key /no/agentKey cannot be used" in capsys.readouterr().err
