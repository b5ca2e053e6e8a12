"""The client that queries Prometheus survives connections that Prometheus closes."""

import contextlib
import http.server
import threading

import pytest

SUCCESS = b'{"status": "success", "data": {"resultType": "scalar", "result": [0, "1"]}}'


class ClosingHandler(http.server.BaseHTTPRequestHandler):
    """Close each connection without `Connection: close`, as a server does with an idle one."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.respond()
        self.close_connection = True

    def respond(self):
        self.send_response(200)
        self.send_header("Content-Length", str(len(SUCCESS)))
        self.end_headers()
        self.wfile.write(SUCCESS)

    def log_message(self, *args):
        pass


class BreakingHandler(ClosingHandler):
    """Close every other connection instead of responding."""

    requests = 0

    def respond(self):
        BreakingHandler.requests += 1
        if BreakingHandler.requests % 2 == 0:
            super().respond()


@contextlib.contextmanager
def serving(handler):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("handler", [ClosingHandler, BreakingHandler])
def test_query_succeeds_after_the_server_closed_the_connection(handler, client):
    with serving(handler) as address, contextlib.closing(client(address)) as prometheus:
        assert [prometheus.ask("1", 0) for _ in range(5)] == [1.0] * 5
