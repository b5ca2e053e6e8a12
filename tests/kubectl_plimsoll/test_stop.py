"""`kubectl plimsoll stop` and `resume`: the entries that they write, by a program in kubectl's place that keeps one ConfigMap."""

import json
import sys

import pytest

from kubectl_plimsoll import main as cli
from kubectl_plimsoll.table import Style
from kubectl_plimsoll.views import notices, policies

KUBECTL = """#!{python}
import json, pathlib, sys
store, words = pathlib.Path({store!r}), sys.argv[1:]
if words[:2] == ["auth", "whoami"]:
    print("alice")
elif words[:2] == ["config", "view"]:
    print("shop")
elif "get" in words and "--raw" in words:
    nodes = {{"a": {{"violates": {{"shop/web": ["dontschedule"]}}}}, "b": {{"violates": {{"shop/db": ["deschedule"]}}}},
             "c": {{"violates": {{"shop/seen": ["dontschedule"]}}}}}}
    modes = {{"shop/web": "enforce", "shop/db": "enforce", "shop/seen": "observe"}}
    listed = [{{"policy": name, "enforcement": mode}} for name, mode in modes.items()]
    print(json.dumps({{"policies": listed, "nodes": nodes}}))
elif "taspolicies.telemetry.intel.com" in words:
    if words[-1] == "typo":
        sys.exit('Error from server (NotFound): taspolicies.telemetry.intel.com "typo" not found')
elif "create" in words:
    store.write_text("{{}}")
elif "patch" in words:
    if not store.exists():
        sys.exit('Error from server (NotFound): configmaps "plimsoll-stop" not found')
    data = json.loads(store.read_text())
    for key, text in json.loads(words[words.index("-p") + 1])["data"].items():
        data.pop(key, None)
        if text is not None:
            data[key] = text
    store.write_text(json.dumps(data))
elif store.exists():
    print(json.dumps({{"data": json.loads(store.read_text())}}))
"""


@pytest.fixture
def entries(tmp_path, monkeypatch):
    """What the ConfigMap has, as a function; it does not exist at first."""
    store, program = tmp_path / "store", tmp_path / "kubectl"
    program.write_text(KUBECTL.format(python=sys.executable, store=str(store)))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return lambda: json.loads(store.read_text())


def run(*words):
    assert cli.main([*words]) == 0


def refused(capsys, *words):
    with pytest.raises(SystemExit) as ended:
        cli.main([*words])
    assert ended.value.code == 2
    return capsys.readouterr().err


def test_stop_freezes_all_and_says_who_when_and_why(entries, capsys):
    run("stop", "--reason", "storage migration")
    found = json.loads(entries()["all"])
    assert (found["mode"], found["by"], found["reason"]) == ("freeze", "alice", "storage migration")
    assert found["at"].endswith("Z")
    assert "all policies are frozen: what stands stays" in capsys.readouterr().out
    run("resume")
    assert entries() == {}


def test_policies_are_stopped_and_resumed_one_by_one(entries, capsys):
    run("stop", "web", "other/db.v2")
    assert [*entries()] == ["shop.web", "other.db.v2"]
    run("resume", "web")
    assert [*entries()] == ["other.db.v2"]
    assert "shop/web has no stop of its own" in refused(capsys, "resume", "web")


def test_stop_of_all_replaces_entries_that_would_count_before_it(entries):
    run("stop", "web", "--release", "--yes")
    run("stop")
    assert [*entries()] == ["all"]


def test_one_policy_cannot_be_resumed_from_the_stop_of_all(entries, capsys):
    run("stop")
    assert "all policies are: resume without a name" in refused(capsys, "resume", "web")
    assert [*entries()] == ["all"]


@pytest.mark.parametrize(("words", "opened"), [((), "2 nodes"), (("web",), "1 node")])
def test_release_says_how_many_nodes_it_opens_and_asks(entries, capsys, monkeypatch, words, opened):
    err = refused(capsys, "stop", *words, "--release")
    assert f"opens {opened} to new pods: add --yes" in err
    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    assert "nothing was changed" in refused(capsys, "stop", *words, "--release")
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    run("stop", *words, "--release")
    (text,) = entries().values()
    assert json.loads(text)["mode"] == "release"


class Terminal:
    """A terminal on which a person answers."""

    def __init__(self, answer):
        self._answer = answer

    def isatty(self):
        return True

    def readline(self):
        return self._answer


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["stop", "typo"], "no policy shop/typo"),
        (["stop", "a/b/c"], "stop takes names of policies"),
        (["stop", "a/"], "stop takes names of policies"),
        (["stop", "w" * 253], "too long for an entry"),
        (["resume", "-o", "json"], "resume takes no -o"),
    ],
)
def test_mistake_changes_nothing(entries, capsys, words, says):
    assert says in refused(capsys, *words)
    with pytest.raises(FileNotFoundError):
        entries()


def test_every_view_begins_with_what_is_stopped():
    page = {"notices": ["all policies are frozen (alice\x1b[31m)"]}
    assert [*notices(page, Style())] == [r"stopped:   all policies are frozen (alice\u001b[31m)"]
    entry = {"policy": "shop/web", "enforcement": "enforce", "problems": [], "dontschedule": [], "deschedule": []}  # fmt: skip
    (_, row) = policies({"policies": [entry | {"stopped": "freeze"}]}, Style(), wide=False)
    assert "enforce (freeze)" in row
