"""`check-rules` reports every error of every file with its position."""

import pytest

from agent.eval import check_rules

GOOD = "groups:\n- name: g\n  rules:\n  - {record: a, expr: up}\n"
BAD = """groups:
- name: first
  intervall: 5s
  rules:
  - record: a
    expr: sum(
    labels: {a-b: c}
  - record: 1a
    exp: up
- name: second
  rules:
  - record: b
    expr: rate(up)
"""


def run(capsys, *argv):
    status = check_rules.main([str(arg) for arg in argv])
    out, err = capsys.readouterr()
    return status, out, err


def test_valid_file_is_summarized(tmp_path, capsys):
    (tmp_path / "a.yaml").write_text(GOOD)
    assert run(capsys, tmp_path / "a.yaml") == (0, f"{tmp_path}/a.yaml: 1 groups, 1 rules\n", "")


def test_all_errors_of_a_file_are_reported_with_line_and_column(tmp_path, capsys):
    (tmp_path / "a.yaml").write_text(BAD)
    status, _, err = run(capsys, tmp_path / "a.yaml")
    assert status == 1
    said = [line.removeprefix(f"{tmp_path}/a.yaml: ") for line in err.splitlines()]
    assert [one.split(": ")[:2] for one in said] == [
        ["line 3, column 14", 'group "first"'],
        ["line 6, column 11", 'group "first", rule "a"'],
        ["line 7, column 13", 'group "first", rule "a"'],
        ["line 9, column 10", 'group "first", rule "1a"'],
        ["line 8, column 13", 'group "first", rule "1a"'],
        ["line 8, column 5", 'group "first", rule "1a"'],
        ["line 13, column 11", 'group "second", rule "b"'],
    ]


@pytest.mark.parametrize("what", ["{}", "{}/*.yaml"])
def test_folders_and_globs_are_checked(tmp_path, capsys, what):
    (tmp_path / "a.yaml").write_text(GOOD)
    (tmp_path / "b.yaml").write_text("groups: [")
    status, out, err = run(capsys, what.format(tmp_path))
    assert (status, out) == (1, f"{tmp_path}/a.yaml: 1 groups, 1 rules\n")
    assert err.startswith(f"{tmp_path}/b.yaml: line 1, column ")


@pytest.mark.parametrize("name", ["missing.yaml", "none-*.yaml"])
def test_missing_file_is_an_error(tmp_path, capsys, name):
    status, _, err = run(capsys, tmp_path / name)
    assert status == 1
    assert name in err


def test_binary_file_is_an_error(tmp_path, capsys):
    (tmp_path / "a.yaml").write_bytes(b"\xff")
    assert run(capsys, tmp_path / "a.yaml")[::2] == (1, f"{tmp_path}/a.yaml: byte 0: not UTF-8\n")


SHORT = """groups:
- {name: common, rules: [{record: a, expr: 'rate(up[5s])'}, {record: b, expr: 'rate(up[1m])'}]}
- {name: slow, interval: 1m, rules: [{record: c, expr: 'rate(up[1m])'}]}
"""


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        ([], ["a", "c"]),
        (["--rules.interval=1s"], ["c"]),
        (["--rules.interval=1m"], ["a", "b", "c"]),
        (["--rules.ranges=closed"], []),
    ],
)
def test_ranges_with_fewer_than_two_samples_are_noted(tmp_path, capsys, flags, named):
    (tmp_path / "a.yaml").write_text(SHORT)
    status, out, err = run(capsys, tmp_path / "a.yaml", *flags)
    assert (status, err) == (0, "")
    *notes, summary = out.splitlines()
    assert [note.split(", rule ")[1].split('"')[1] for note in notes] == named
    assert all("holds 1 sample at an interval of" in note for note in notes)
    assert summary.endswith("2 groups, 3 rules")
