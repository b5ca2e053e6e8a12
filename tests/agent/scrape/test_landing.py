"""The agent's page, as HTML and JSON: collectors, text files and rules; values are escaped, and the web configuration guards it."""

import base64
import json
from html.parser import HTMLParser

import bcrypt
import pytest

from agent.rules.clock import Clock
from agent.rules.engine import RuleEngine
from agent.rules.options import RuleOptions
from agent.scrape.endpoints import OPEN_PATHS, Endpoints
from agent.scrape.runner import CollectorRunner
from agent.scrape.self_metrics import SelfMetrics
from agent.web.guard import WebGuard
from collectors.interface.sample import CollectorError, SourceAbsentError
from collectors.textfile import Options, TextFile

EVIL = '<script>alert("x")</script>'
RULES = f"""
groups:
  - name: {json.dumps(EVIL)}
    interval: 1s
    rules:
      - record: node_double
        expr: node_load1 * 2
      - record: node_ambiguous
        expr: node_load1 / on () node_load1
  - name: other
    rules:
      - record: node_unread
        expr: sum(
"""


class Time:
    """Milliseconds since boot."""

    now = 0

    def get(self):
        return self.now


class Page(HTMLParser):
    """The links, the tables (rows of cell texts, by id of the heading) and the elements of a page."""

    def __init__(self, text):
        super().__init__()
        self.links, self.tables, self.tags, self._cell, self._rows = [], {}, set(), None, None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.tags.add(tag)
        if tag == "a":
            self.links.append(found["href"])
        if tag == "div" and "aria-labelledby" in found:
            self._rows = self.tables.setdefault(found["aria-labelledby"], [])
        if tag == "tr" and self._rows is not None:
            self._rows.append([])
        if tag in {"td", "th"}:
            self._cell = []

    def handle_data(self, data):
        if self._cell is not None:
            self._cell.append(data)

    def handle_endtag(self, tag):
        if tag in {"td", "th"}:
            self._rows[-1].append(" ".join("".join(self._cell).split()))
            self._cell = None

    def row(self, table, first):
        (row,) = [row for row in self.tables[table] if row[0] == first]
        return row


@pytest.fixture
def runner(source, family, tmp_path):
    textfiles = tmp_path / "text"
    textfiles.mkdir()
    (textfiles / "<b>.prom").write_text("node_half 1")
    return CollectorRunner(
        {
            "loadavg": source(
                [family("node_load1", 1, cpu="0"), family("node_load1", 2, cpu=EVIL)]
            ),
            "broken": source(error=CollectorError(f"cannot read {EVIL}")),
            "elsewhere": source(error=SourceAbsentError("no such device")),
            "textfile": TextFile(Options((str(textfiles),)), patience=0),
        }
    )


@pytest.fixture
def endpoints(runner, tmp_path):
    (tmp_path / "rules.yaml").write_text(RULES)
    time = Time()
    engine = RuleEngine(
        runner, RuleOptions(files=(str(tmp_path / "rules.yaml"),)), clock=Clock(boot=time.get)
    )
    own = SelfMetrics()
    own.watch_stream()
    runner.run()
    for time.now in range(100_000, 110_000, 1_000):
        engine.step()
    return Endpoints(runner, own, node=EVIL, telemetry_path="/deep/metrics", recorder=engine)


@pytest.fixture
async def client(serve, endpoints):
    return await (await serve(endpoints.answer)).connect()


async def test_page_shows_collectors_text_files_and_rules(client):
    reply = await client.get("/")
    assert (reply.status, reply.headers["content-type"]) == (200, "text/html; charset=utf-8")
    page = Page(reply.body.decode())
    state, duration, _, message = page.row("collectors", "loadavg")[1:]
    assert (state, message) == ("ok", "")
    assert duration.endswith(" ms")
    assert page.row("collectors", "broken")[1::3] == ["failed", f"cannot read {EVIL}"]
    assert page.row("collectors", "elsewhere")[1] == "no source"
    assert page.tables["collectors"][1][0] == "broken"
    assert page.tables["files"][1][1:] == [
        "truncated",
        "line 1: the file breaks off without a newline",
    ]
    assert page.row("group-1", "node_double")[1] == f"2 cpu=0 4 cpu={EVIL}"
    assert page.row("failing", "node_ambiguous")[1:3] == [EVIL, "evaluation"]
    assert page.row("failing", "node_unread")[2] == "parse"
    assert "deep/metrics" in {link.removeprefix("./") for link in page.links}


async def test_names_are_escaped_and_no_script_runs(client):
    reply = await client.get("/")
    assert reply.body.count(b"<script") == 1
    assert EVIL.encode() not in reply.body
    assert "default-src 'none'" in reply.headers["content-security-policy"]
    assert not {"style", "iframe", "img"} & Page(reply.body.decode()).tags


async def test_links_are_relative(client):
    page = Page((await client.get("/")).body.decode())
    assert all(not link.startswith(("/", "http")) for link in page.links)


async def test_json_says_the_same(client):
    by_path = json.loads((await client.get("/index.json")).body)
    reply = await client.get("/", "Accept: application/json")
    assert reply.headers["content-type"] == "application/json"
    found = json.loads(reply.body)
    assert found.keys() == by_path.keys()
    states = {one["name"]: one["state"] for one in found["collectors"]}
    assert states == {"broken": "failed", "elsewhere": "absent", "loadavg": "ok", "textfile": "ok"}
    assert (found["node"], found["ready"], found["stream"]) == (EVIL, False, False)
    assert [one["reason"] for one in found["files"]] == ["truncated"]
    first, second = found["rules"]["groups"][0]["rules"]
    assert first["results"] == [
        {"labels": {"cpu": "0"}, "value": "2"},
        {"labels": {"cpu": EVIL}, "value": "4"},
    ]
    assert second["error"]["reason"] == "evaluation"


async def test_browser_gets_html(client):
    reply = await client.get("/", "Accept: text/html,application/xhtml+xml,*/*;q=0.8")
    assert reply.headers["content-type"].startswith("text/html")


async def test_assets_of_the_page_are_served(client):
    page = (await client.get("/")).body.decode()
    path = page.partition('rel="stylesheet" href=".')[2].partition('"')[0]
    reply = await client.get(path)
    assert (reply.status, reply.headers["content-type"]) == (200, "text/css; charset=utf-8")
    assert (await client.get("/assets/other.css")).status == 404


async def test_page_without_rules_and_stream(serve, source):
    endpoints = Endpoints(
        CollectorRunner({"new": source()}), SelfMetrics(), node="a", telemetry_path="/metrics"
    )
    client = await (await serve(endpoints.answer)).connect()
    page = Page((await client.get("/")).body.decode())
    assert page.row("collectors", "new")[1] == "not run yet"
    assert json.loads((await client.get("/index.json")).body)["rules"] is None


async def test_web_configuration_guards_the_page_as_it_guards_metrics(serve, endpoints, tmp_path):
    hashed = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()
    headers = "http_server_config: {headers: {Content-Security-Policy: sandbox}}\n"
    (tmp_path / "web.yml").write_text(f"basic_auth_users: {{alice: {hashed}}}\n{headers}")
    guarded = WebGuard(tmp_path / "web.yml").guard(endpoints.answer, open_paths=OPEN_PATHS)
    client = await (await serve(guarded)).connect()
    for path in ("/", "/index.json", "/assets/x.css", "/deep/metrics"):
        assert (await client.get(path)).status == 401
    given = "Authorization: Basic " + base64.b64encode(b"alice:secret").decode()
    reply = await client.get("/", given)
    assert reply.status == 200
    assert reply.headers["content-security-policy"] == "sandbox"
