"""Where the service proxy is refused, pages are read through `kubectl port-forward`; errors say which refusal it was."""

import json
import sys
from pathlib import Path

import pytest

from kubectl_plimsoll import forward
from kubectl_plimsoll import main as cli
from kubectl_plimsoll.evaluator import Evaluator, UnreachableError

CLOSED = "pages are for kubectl port-forward, not for 10.0.0.7: if that is the API server's service proxy, open them with --pagesFrom=10.0.0.7"
DROPPED = 'an error on the server ("error trying to reach service: dial tcp 10.244.1.9:8080: i/o timeout")'
LATE = "Unable to connect to the server: context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
PAGE = {"waitingFor": [], "policies": []}
FAKE = """#!{python}
import http.server, json, sys, time

open({log!r}, "a").write(" ".join(sys.argv[1:]) + "\\n")
if "--raw" in sys.argv:
    limited = any("--request-timeout" in word for word in sys.argv)
    if {slow!r} and not limited:
        print(json.dumps({page!r}))
        sys.exit(0)
    sys.exit("Error from server: " + {refusal!r})
if {silent!r}:
    time.sleep(600)
if {forbidden!r}:
    sys.exit("error: pods is forbidden: User x cannot create resource pods/portforward")

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        open({log!r}, "a").write(self.path + "\\n")
        self.send_response({status!r})
        self.end_headers()
        self.wfile.write(json.dumps({page!r}).encode())

    def log_message(self, *_):
        pass

server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print("Forwarding from 127.0.0.1:%d -> 8080" % server.server_port, flush=True)
server.serve_forever()
"""


@pytest.fixture
def kubectl(tmp_path, monkeypatch):
    """A program in kubectl's place; returns what it was called with, and the paths that were asked through the port-forward."""
    log = tmp_path / "log"

    def make(refusal=CLOSED, *, status=200, page=PAGE, **behaves):
        given = {"slow": False, "forbidden": False, "silent": False, **behaves}
        given |= {"status": status, "page": page}
        program = tmp_path / "kubectl"
        text = FAKE.format(python=sys.executable, log=str(log), refusal=refusal, **given)
        program.write_text(text)
        program.chmod(0o755)
        return lambda: log.read_text().splitlines()

    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return make


@pytest.mark.parametrize("refusal", [CLOSED, DROPPED, LATE])
def test_pages_are_read_through_a_port_forward_where_the_service_proxy_is_refused(
    kubectl, capsys, refusal
):
    calls = kubectl(refusal)
    assert cli.main(["explain", "--context=c", "policy", "shop/web", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == PAGE
    _, forwarded, path = calls()
    ports = "service/plimsoll-evaluator :ops --address=127.0.0.1"
    assert forwarded == f"--context=c -n plimsoll port-forward {ports}"
    assert path == "/explain/shop/web"


def test_slow_answer_is_waited_for_without_the_right_to_forward_ports(kubectl):
    calls = kubectl(LATE, slow=True, forbidden=True)
    assert Evaluator().get() == PAGE
    limited, _, waited = calls()
    assert limited == f"--request-timeout=3s {waited}"


@pytest.mark.parametrize(
    ("refusal", "words"),
    [
        (CLOSED, ("--pagesFrom=10.0.0.7", "or you need the right to create pods/portforward")),
        (DROPPED, ("i/o timeout", "does a NetworkPolicy keep the API server from", "--pagesFrom")),
    ],
)
def test_without_the_right_to_forward_ports_status_says_which_refusal_it_was(
    kubectl, capsys, refusal, words
):
    kubectl(refusal, forbidden=True)
    assert cli.main(["status"]) == cli.UNKNOWN
    errors = capsys.readouterr().err
    assert all(word in errors for word in words), errors


@pytest.mark.parametrize(
    "refusal",
    [
        'services "x" is forbidden: (Forbidden)',
        "no endpoints available",
        "a bearer token is required",
    ],
)
def test_other_refusals_are_no_reason_for_a_port_forward(kubectl, refusal):
    calls = kubectl(refusal)
    with pytest.raises(UnreachableError) as raised:
        Evaluator().get()
    assert refusal in str(raised.value)
    assert "pagesFrom" not in str(raised.value)
    assert len(calls()) == 1


def test_error_of_the_evaluator_is_that_through_a_port_forward_too(kubectl):
    kubectl(status=404, page={"kind": "Status", "message": "no pod shop/web"})
    with pytest.raises(UnreachableError, match=r"^no pod shop/web$"):
        Evaluator().get(query={"pod": "shop/web"})


def test_port_forward_ends_with_the_command(kubectl, tmp_path):
    kubectl()
    Evaluator().get()
    commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline")]
    assert not [one for one in commands if str(tmp_path).encode() in one]


def test_port_forward_that_never_begins_is_given_up(kubectl, monkeypatch):
    kubectl(CLOSED, silent=True)
    monkeypatch.setattr(forward, "_OPENING", 0.5)
    with pytest.raises(UnreachableError, match="open them with --pagesFrom"):
        Evaluator().get()
