"""Two weeks of 20 nodes in a real Prometheus: the answer equals that of a reference that walks through every sample."""

import http.server
import json
import random
import shutil
import subprocess
import threading
import urllib.parse
import urllib.request

import pytest
import yaml

from lab.backtest import main
from plimsoll import rfc3339
from tests.evaluator.conftest import make_tas
from tests.prometheus import running

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(
        not (shutil.which("prometheus") and shutil.which("promtool")),
        reason="prometheus and promtool are not on PATH",
    ),
]

BEGIN = 1_763_164_800
STEP, STALE = 120, 300
STEPS = 14 * 86_400 // STEP
NODES = 20
TARGET, FOR, CLEAR = 6.0, 600, 900


@pytest.fixture(scope="module")
def samples():
    """Node → (time, value); walks with gaps of a node, and one gap of all nodes."""
    rng = random.Random(7)
    found = {}
    for number in range(NODES):
        value, own, quiet = 5.0, [], 0
        for tick in range(STEPS):
            value = max(0.0, value + rng.gauss(0, 0.3) - (value - 5) * 0.02)
            quiet = quiet - 1 if quiet else (rng.randint(1, 20) if rng.random() < 0.002 else 0)
            if not quiet and not 3000 <= tick < 3030:
                own.append((BEGIN + tick * STEP, round(value, 3)))
        found[f"node-{number:02d}"] = own
    return found


@pytest.fixture(scope="module")
def server(samples, tmp_path_factory):
    folder = tmp_path_factory.mktemp("prometheus")
    lines = ["# TYPE node_load1 gauge\n"]
    for number, own in enumerate(samples.values()):
        head = f'node_load1{{instance="10.0.0.{number}:9100"}}'
        lines += [f"{head} {value} {time}\n" for time, value in own]
    lines.append("# TYPE kube_node_info gauge\n")
    for number, node in enumerate(samples):
        info = f'kube_node_info{{node="{node}",internal_ip="10.0.0.{number}"}}'
        lines.append(f"{info} 1 {BEGIN + STEPS * STEP - STEP}\n")
    (folder / "dump.om").write_text("".join([*lines, "# EOF\n"]))
    subprocess.run(
        [
            "promtool",
            "tsdb",
            "create-blocks-from",
            "openmetrics",
            "--max-block-duration=720h",  # not 168 blocks of two hours
            folder / "dump.om",
            folder / "data",
        ],
        check=True,
        capture_output=True,
    )
    with running(folder, {}) as started:
        yield f"http://{started.address}"


def reference(own, begin, end):
    """The intervals in violation of one node, sample by sample."""
    changes = [(BEGIN - 1, False)]
    times = [at for at, _ in own]
    for number, (at, value) in enumerate(own):
        changes.append((at, value > TARGET))
        if number + 1 == len(own) or times[number + 1] - at > STALE:
            changes.append((at + STALE + 0.005, False))
    matches = [one for n, one in enumerate(changes) if not n or one[1] != changes[n - 1][1]]
    found, since = [], None
    for number, (at, match) in enumerate(matches):
        following = matches[number + 1][0] if number + 1 < len(matches) else float("inf")
        if match and since is None and at + FOR < following:
            since = at + FOR
        if not match and since is not None and at + CLEAR < following:
            found.append((since, at + CLEAR))
            since = None
    if since is not None:
        found.append((since, float("inf")))
    return [(max(a, begin), min(b, end)) for a, b in found if b > begin and a < end]


def backtest(server, tmp_path, capsys, *flags):
    rule = {"metricname": "load1", "operator": "GreaterThan", "target": TARGET}
    timed = {**rule, "for": f"{FOR}s", "clearAfter": f"{CLEAR}s"}
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump(make_tas("load", dontschedule=[timed])))
    status = main.main(
        [
            *("-f", str(tmp_path / "policy.yaml"), "--prometheus", server, "-o", "json"),
            *(f"--step={STEP}s", f"--staleAfter={STALE}s", *flags),
        ]
    )
    out, err = capsys.readouterr()
    assert status == 0, err
    return json.loads(out)


def test_two_weeks_equal_the_reference(server, samples, tmp_path, capsys):
    end = BEGIN + STEPS * STEP
    begin = end - 13 * 86_400
    found = backtest(server, tmp_path, capsys, "--from=13d", f"--to={rfc3339.seconds(end)}")
    assert found["nodes"] == NODES
    (gap,) = found["gaps"]
    assert gap["start"].startswith(rfc3339.seconds(BEGIN + 2999 * STEP + STALE)[:-1])
    assert gap["end"] == rfc3339.seconds(BEGIN + 3030 * STEP)
    nodes = found["policies"][0]["nodes"]
    for node, own in samples.items():
        expected = reference(own, begin, end)
        got = nodes.get(node, {"intervals": []})["intervals"]
        assert [
            (rfc3339.parse(one["start"]), rfc3339.parse(one["end"])) for one in got
        ] == pytest.approx([pytest.approx(pair, abs=0.002) for pair in expected])


def test_a_configured_query_is_used(server, tmp_path, capsys):
    (tmp_path / "queries.yaml").write_text("load1: 0 * node_load1 + 7\n")
    end = BEGIN + 86_400
    flags = ("--from=2h", f"--to={end}", f"--prometheusQueries={tmp_path / 'queries.yaml'}")
    found = backtest(server, tmp_path, capsys, *flags)
    assert found["policies"][0]["nodesAtOnce"]["max"] == NODES


class Frontend(http.server.BaseHTTPRequestHandler):
    """A query frontend as those of Mimir and Thanos: below a path, for a tenant, one of its stores is down."""

    upstream = ""

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        if self.headers["X-Scope-OrgID"] != "team-a":
            self.answer(401, b"no org id")
        elif not url.path.startswith("/prometheus/api/v1/"):
            self.answer(404, b"404 page not found")
        elif "partial_response=false" in url.query:
            error = {"status": "error", "errorType": "execution", "error": "store b is down"}
            self.answer(422, json.dumps(error).encode())
        else:
            path = self.path.removeprefix("/prometheus")
            with urllib.request.urlopen(self.upstream + path) as found:
                body = json.load(found) | {"warnings": ["store b is down"]}
            self.answer(200, json.dumps(body).encode())

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def frontend(server):
    handler = type("_", (Frontend,), {"upstream": server})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as listening:
        threading.Thread(target=listening.serve_forever).start()
        yield f"http://127.0.0.1:{listening.server_port}/prometheus/"
        listening.shutdown()


def test_a_tenant_below_a_path_and_partial_answers(frontend, server, tmp_path, capsys):
    times = ("--from=2h", f"--to={BEGIN + 86_400}")
    with pytest.raises(AssertionError, match="401"):
        backtest(frontend, tmp_path, capsys, *times)
    tenant = "--prometheusHeader=X-Scope-OrgID: team-a"
    with pytest.raises(AssertionError, match=r"store b is down.*pass --partial-response"):
        backtest(frontend, tmp_path, capsys, *times, tenant)
    found = backtest(frontend, tmp_path, capsys, *times, tenant, "--partial-response")
    assert found["warnings"] == ["store b is down"]
    whole = backtest(server, tmp_path, capsys, *times)
    assert found["policies"] == whole["policies"]
    assert whole["warnings"] == []


def test_errors_of_prometheus_say_what_is_wrong(server, tmp_path, capsys):
    with pytest.raises(AssertionError, match="has no series of load1 on a node in this range"):
        backtest(server, tmp_path, capsys, "--from=1h", "--to=2020-01-01T00:00:00Z")
    (tmp_path / "queries.yaml").write_text("load1: sum(\n")
    with pytest.raises(AssertionError, match=r"bad_data.*parse error"):
        backtest(
            *(server, tmp_path, capsys, "--from=1h", f"--to={BEGIN + 86_400}"),
            f"--prometheusQueries={tmp_path / 'queries.yaml'}",
        )
    with pytest.raises(AssertionError, match="Cannot connect to host"):
        backtest("http://127.0.0.1:1", tmp_path, capsys, "--from=1h")
