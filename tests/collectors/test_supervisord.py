import contextlib
import math
import socketserver
import tempfile
import threading
import xmlrpc.client
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from agent import config
from collectors.interface.host import Host
from collectors.interface.sample import CollectorError
from collectors.supervisord import Options as SupervisordOptions
from collectors.supervisord import Supervisord

PROCESSES = [
    {"name": "web", "group": "shop", "state": 20, "exitstatus": 0, "start": 1_700_000_000},
    {"name": "mail", "group": "mail", "state": 100, "exitstatus": 3, "start": 1_600_000_000},
]
RUNNING, EXITED = '{name="web",group="shop"}', '{name="mail",group="mail"}'
EXPECTED = {
    f"node_supervisord_up{RUNNING}": 1,
    f"node_supervisord_up{EXITED}": 0,
    f"node_supervisord_state{RUNNING}": 20,
    f"node_supervisord_state{EXITED}": 100,
    f"node_supervisord_exit_status{RUNNING}": 0,
    f"node_supervisord_exit_status{EXITED}": 3,
    f"node_supervisord_start_time_seconds{RUNNING}": 1_700_000_000,
}


class Supervisor(BaseHTTPRequestHandler):
    """supervisord's interface; a user needs the password."""

    answer = xmlrpc.client.dumps((PROCESSES,), methodresponse=True)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert xmlrpc.client.loads(body)[1] == "supervisor.getAllProcessInfo"
        known = self.headers.get("Authorization") in {None, "Basic YWRhOnNlY3JldA=="}
        self.send_response(200 if known else 401)
        self.send_header("Content-Length", str(len(self.answer)))
        self.send_header("Content-Type", "text/xml")
        self.end_headers()
        self.wfile.write(self.answer.encode())

    def address_string(self) -> str:
        return "a client"

    def log_message(self, *_: object) -> None:
        pass


class UnixServer(socketserver.UnixStreamServer):
    pass


@contextlib.contextmanager
def serving(server):
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def port():
    with serving(HTTPServer(("127.0.0.1", 0), Supervisor)) as server:
        yield server.server_address[1]


def collected(url: str, root: Path = Path("/")):
    return Supervisord(Host(rootfs=root), SupervisordOptions(url)).collect()


@pytest.mark.parametrize("user", ["", "ada:secret@"])
def test_processes_are_exported(port: int, user: str, values) -> None:
    assert values(collected(f"http://{user}127.0.0.1:{port}/RPC2")) == EXPECTED


def test_socket_on_the_host_is_queried(values) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(UnixServer(f"{folder}/supervisor.sock", Supervisor)),
    ):
        assert values(collected("unix:///supervisor.sock", Path(folder))) == EXPECTED


def test_wrong_password_is_an_error(port: int) -> None:
    with pytest.raises(CollectorError, match="status 401"):
        list(collected(f"http://ada:wrong@127.0.0.1:{port}/RPC2"))


@pytest.mark.parametrize(
    "answer",
    [
        "not xml",
        xmlrpc.client.dumps(([{"name": "web"}],), methodresponse=True),
        xmlrpc.client.dumps(
            ([{"name": "web", "group": "g", "exitstatus": 0, "state": math.inf}],),
            methodresponse=True,
        ),
        xmlrpc.client.dumps((5,), methodresponse=True),
        xmlrpc.client.dumps(xmlrpc.client.Fault(2, "no such method"), methodresponse=True),
    ],
)
def test_other_answers_are_errors(port: int, answer: str, monkeypatch) -> None:
    monkeypatch.setattr(Supervisor, "answer", answer)
    with pytest.raises(CollectorError, match="supervisord"):
        list(collected(f"http://127.0.0.1:{port}/RPC2"))


def test_missing_supervisord_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CollectorError, match="No such file"):
        list(collected("unix:///supervisor.sock", tmp_path))


def test_other_urls_are_rejected_on_the_command_line(capsys) -> None:
    with pytest.raises(SystemExit):
        config.parse(["--collector.supervisord.url=ftp://x"], {}, hostname="h")
    assert "--collector.supervisord.url: not a URL" in capsys.readouterr().err
