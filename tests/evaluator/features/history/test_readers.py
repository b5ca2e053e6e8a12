"""The file of records: JSON lines, rotated by size, and errors that stop nothing."""

import json

from evaluator.core.signals import ActionKind
from evaluator.features.history.history import History
from evaluator.features.history.readers import HistoryFile

KINDS = (*ActionKind, "evicted", "requeued")
"""Of actions."""


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


async def test_records_are_appended_once_in_their_order(tmp_path):
    history, path = History(1 << 20, 3600.0, KINDS), tmp_path / "history.jsonl"
    file = HistoryFile(history, str(path), size=1 << 20, kept=1)
    await file.write()
    assert not path.exists()
    for number in range(3):
        history.add("evicted", 1.0 + number, pod=f"ns/{number}", text='a "quoted"\nline')
    await file.write()
    await file.write()
    history.add(ActionKind.LEADER, 9.0, text="replica-a leads")
    await file.write()
    assert [one["number"] for one in lines(path)] == [1, 2, 3, 4]
    assert lines(path)[0]["at"] == "1970-01-01T00:00:01.000Z"


async def test_files_are_rotated_and_the_oldest_is_removed(tmp_path):
    history, path = History(1 << 20, 3600.0, KINDS), tmp_path / "history.jsonl"
    file = HistoryFile(history, str(path), size=600, kept=2)
    for number in range(40):
        history.add("evicted", 1.0, pod=f"ns/{number}", text="x" * 100)
        await file.write()
    assert sorted(one.name for one in tmp_path.iterdir()) == [
        "history.jsonl",
        "history.jsonl.1",
        "history.jsonl.2",
    ]
    assert all(one.stat().st_size <= 600 for one in tmp_path.iterdir())
    ordered = [
        *lines(tmp_path / "history.jsonl.2"),
        *lines(tmp_path / "history.jsonl.1"),
        *lines(path),
    ]
    numbers = [one["number"] for one in ordered]
    assert numbers == list(range(numbers[0], 41))


async def test_storm_leaves_records_out_and_says_so(tmp_path):
    history, path = History(1 << 20, 3600.0, KINDS), tmp_path / "history.jsonl"
    for _ in range(2_500):
        history.add(ActionKind.LEADER, 1.0)
    await HistoryFile(history, str(path), size=1 << 20, kept=1).write()
    first, *rest = lines(path)
    assert first == {"kind": "left out", "records": 500}
    assert len(rest) == 2_000


async def test_folder_that_does_not_exist_is_logged_once_and_stops_nothing(tmp_path, capsys):
    history, folder = History(1 << 20, 3600.0, KINDS), tmp_path / "later"
    file = HistoryFile(history, str(folder / "history.jsonl"), size=1 << 20, kept=1)
    for _ in range(3):
        history.add(ActionKind.LEADER, 1.0)
        await file.write()
    out = capsys.readouterr()
    assert (out.out + out.err).count("history not written") == 1
    folder.mkdir()
    history.add(ActionKind.LEADER, 2.0)
    await file.write()
    assert len(lines(folder / "history.jsonl")) == 1
