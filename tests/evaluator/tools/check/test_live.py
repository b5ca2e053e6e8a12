"""plimsoll check --live: answers of an evaluator, and of servers that are none."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from evaluator.tools.check import main
from evaluator.tools.check.live import LiveError, ask

HAS = {"read": True, "nodesWith": 3, "nodesWithout": 0, "lowest": 0.25, "highest": 0.25}


class Answering(HTTPServer):
    """A server that answers each request with `body`, and keeps the paths."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.body, self.status, self.paths = "{}", 200, []


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.paths.append(self.path)
        self.send_response(self.server.status)
        self.end_headers()
        self.wfile.write(self.server.body.encode())

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with Answering() as serving:
        thread = threading.Thread(target=serving.serve_forever, args=(0.01,))
        thread.start()
        yield serving
        serving.shutdown()
        thread.join()


@pytest.fixture
def url(server):
    return f"http://127.0.0.1:{server.server_port}"


@pytest.fixture
def check(tmp_path, capsys, server, url):
    """The exit status and findings of a policy on a metric, given the evaluator's answer about it."""

    def run(metric, answer, *flags):
        server.body = json.dumps({"nodeCount": 4, "metrics": {metric: answer}, "waitingFor": []})
        rules = [{"metricname": metric, "operator": "LessThan", "target": 1}]
        body = {
            "apiVersion": "telemetry.intel.com/v1alpha1",
            "kind": "TASPolicy",
            "metadata": {"name": "demo"},
            "spec": {"strategies": {"dontschedule": {"rules": rules}}},
        }
        path = tmp_path / "policy.json"
        path.write_text(json.dumps(body))
        status = main.main([str(path), f"--live={url}/", "--output=json", *flags])
        return status, json.loads(capsys.readouterr().out)["findings"][0]

    return run


def test_metric_that_no_node_has_is_a_warning(check, server):
    answer = {"read": True, "nodesWithout": 4, "similar": ["fan_rpm"]}
    status, found = check("fan_rmp", answer, "--strict")
    assert status == 1
    assert found["warnings"] == [
        "fan_rmp is on none of 4 nodes; similar metrics that nodes have: fan_rpm"
    ]
    assert server.paths == ["/explain?metric=fan_rmp"]


def test_pending_metric_is_no_warning(check):
    _, found = check("fan_rmp", {"read": True, "nodesWithout": 3, "nodesPending": 1})
    assert found["warnings"] == []


def test_existing_metric_is_not_compared_with_the_catalog(check):
    _, found = check("health_metrc", HAS)
    assert found["warnings"] == []
    assert "now: health_metrc is 0.25 on 3 of 4 nodes" in found["meanings"]


def test_single_series_on_all_nodes_is_no_warning(check):
    _, found = check("disk_io_now", HAS)
    assert found["warnings"] == []
    _, found = check("disk_io_now", {**HAS, "nodesWithSeveral": 2})
    (warning,) = found["warnings"]
    assert warning.startswith("disk_io_now has several series on 2 of 4 nodes")
    assert "min({__name__" in warning


def test_metric_that_is_not_read_yet_is_compared_with_the_catalog(check):
    _, found = check("health_metrc", {"read": False})
    assert "similar: health_metric" in found["warnings"][0]
    assert any("plimsoll.io/enforcement: observe" in line for line in found["meanings"])


def test_many_metrics_are_asked_for_in_several_requests(server, url):
    ask(url, [f"m{number}" for number in range(250)])
    assert [path.count("metric=") for path in server.paths] == [100, 100, 50]


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [
        (200, "<html>", "is not the operations port of an evaluator"),
        (200, '{"metrics": []}', "is not the operations port of an evaluator"),
        (404, "off", "does not answer: Not Found"),
        (200, '{"waitingFor": ["nodes"]}', "is not ready: waiting for nodes"),
    ],
)
def test_other_answers_are_an_error(server, url, status, body, says):
    server.status, server.body = status, body
    with pytest.raises(LiveError, match=says):
        ask(url, ["m"])


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "file:///etc/passwd", "localhost:8080"])
def test_unusable_url_exits_with_2_and_the_reason(tmp_path, capsys, url):
    rules = [{"metricname": "m", "operator": "LessThan", "target": 1}]
    body = {
        "apiVersion": "telemetry.intel.com/v1alpha1",
        "kind": "TASPolicy",
        "metadata": {"name": "demo"},
        "spec": {"strategies": {"dontschedule": {"rules": rules}}},
    }
    (tmp_path / "p.json").write_text(json.dumps(body))
    with pytest.raises(SystemExit) as ended:
        main.main([str(tmp_path), f"--live={url}"])
    assert ended.value.code == 2
    assert url in capsys.readouterr().err
