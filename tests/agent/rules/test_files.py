"""Rule files on disk: found, read, reloaded when they change, and kept when they become invalid."""

import os
from collections.abc import Iterator

import pytest
import structlog

from agent.rules.files import RuleFileReader

ONE = "groups: [{name: one, rules: [{record: a, expr: up}]}]"
TWO = "groups: [{name: two, rules: [{record: b, expr: up}, {record: c, expr: up}]}]"


def recorded(said):
    return [rule.record for group in said.groups for rule in group.rules]


def settled(files):
    """The result after a change, which a second look must repeat."""
    assert files.look() is None
    return files.look()


@pytest.fixture
def logged() -> Iterator[list[dict[str, object]]]:
    with structlog.testing.capture_logs() as lines:
        yield lines


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "one.yaml"
    path.write_text(ONE)
    return path


def test_first_look_reads_everything(path) -> None:
    files = RuleFileReader([str(path)])
    assert recorded(files.look()) == ["a"]
    assert files.look() is None
    assert files.errors == {}


def test_files_of_a_pattern_are_read_in_name_order(path, tmp_path) -> None:
    (tmp_path / "0.yaml").write_text(TWO)
    (tmp_path / "other.txt").write_text("groups: [")
    files = RuleFileReader([str(tmp_path / "*.yaml"), str(path)])
    assert recorded(files.look()) == ["b", "c", "a"]


def test_changed_file_is_read_once_settled(path) -> None:
    files = RuleFileReader([str(path)])
    files.look()
    path.write_text("")  # as an editor leaves it temporarily
    assert files.look() is None
    path.write_text(TWO)
    assert files.look() is None
    assert recorded(files.look()) == ["b", "c"]


def test_new_and_removed_files_of_a_pattern_are_noticed(path, tmp_path) -> None:
    files = RuleFileReader([str(tmp_path / "*.yaml")])
    files.look()
    (tmp_path / "two.yaml").write_text(TWO)
    assert recorded(settled(files)) == ["a", "b", "c"]
    path.unlink()
    assert recorded(settled(files)) == ["b", "c"]


def test_config_map_swapped_by_a_symbolic_link_is_noticed(tmp_path) -> None:
    """As a kubelet does it: rules.yaml -> ..data/rules.yaml, ..data -> a directory per version."""
    for number, text in enumerate((ONE, TWO)):
        version = tmp_path / f"..{number}"
        version.mkdir()
        (version / "rules.yaml").write_text(text)
    (tmp_path / "..data").symlink_to("..0")
    (tmp_path / "rules.yaml").symlink_to("..data/rules.yaml")
    files = RuleFileReader([str(tmp_path / "*.yaml")])
    assert recorded(files.look()) == ["a"]
    (tmp_path / "..new").symlink_to("..1")
    (tmp_path / "..new").rename(tmp_path / "..data")
    assert recorded(settled(files)) == ["b", "c"]


BAD = {
    "syntax": [b"groups: [", b"rules: []", b"groups: {}\ngroups: {}", b"[" * 5000],
    "encoding": [b"groups: [] # \xff"],
    "size": [b"#" * (1 << 20) + b"\n"],
}


@pytest.mark.parametrize(
    ("reason", "content"), [(r, content) for r, all_ in BAD.items() for content in all_]
)
def test_unusable_file_keeps_its_last_valid_rules(path, tmp_path, reason, content) -> None:
    (tmp_path / "two.yaml").write_text(TWO)
    files = RuleFileReader([str(tmp_path / "*.yaml")])
    files.look()
    path.write_bytes(content)
    assert settled(files) is None  # the rules are unchanged
    assert [(p, error.reason) for p, error in files.errors.items()] == [(str(path), reason)]
    (tmp_path / "two.yaml").write_text(TWO.replace("c,", "d,"))
    assert recorded(settled(files)) == ["a", "b", "d"]
    path.write_text(ONE.replace("a,", "e,"))
    assert recorded(settled(files)) == ["e", "b", "d"]
    assert files.errors == {}


def test_missing_named_file_is_an_error(path) -> None:
    files = RuleFileReader([str(path)])
    files.look()
    path.unlink()
    assert settled(files) is None
    assert files.errors[str(path)].reason == "missing"
    path.write_text(TWO)
    assert recorded(settled(files)) == ["b", "c"]


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_special_file_is_not_opened(tmp_path, make) -> None:
    make(tmp_path / "r.yaml")
    files = RuleFileReader([str(tmp_path / "*.yaml")])
    assert recorded(files.look()) == []
    assert files.errors[str(tmp_path / "r.yaml")].reason == "kind"


def test_pattern_without_files_is_logged_once(tmp_path, logged) -> None:
    files = RuleFileReader([str(tmp_path / "*.yaml")])
    assert recorded(files.look()) == []
    files.look()
    assert [line["event"] for line in logged].count("no rule file matches") == 1


def test_problem_of_a_file_is_logged_once(path, logged) -> None:
    path.write_text("groups: [")
    files = RuleFileReader([str(path)])
    for _ in range(5):
        files.look()
    assert [line["event"] for line in logged].count("rule file cannot be used") == 1
