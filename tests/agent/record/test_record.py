"""`plimsoll-agent record`: the files it writes, what a crash leaves, and what the backtest reads from them."""

import os
import signal
import subprocess
import sys
import time

import pytest

from agent.record import command
from agent.scrape.exposition import recorded_lines
from collectors.interface.sample import Family, Sample
from plimsoll.recording.spool import Spool, SpoolError
from tests.lab.backtest.read import read

HOUR = 1_763_164_800.0


def load(value, name="load1", labels=()):
    return Family(name, "gauge", "Load.", (Sample(name, labels, value),))


def test_samples_have_the_node_the_time_and_their_labels(tmp_path):
    spool = Spool(tmp_path, "node-a", most=1 << 20)
    numa = load(2.5, "numa", (("node", "0"), ("path", 'C:\\a "b"\n')))
    spool.write(HOUR, recorded_lines([load(1.0), numa], "node-a", HOUR))
    spool.write(HOUR + 15, recorded_lines([load(float("nan"))], "node-a", HOUR + 15))
    spool.close()
    (file,) = tmp_path.iterdir()
    assert file.name == "node-a-20251115T00Z.om"
    assert file.read_text().endswith("# EOF\n")
    found = read(file)
    assert found["numa", ("exported_node", "0"), ("node", "node-a"), ("path", 'C:\\a "b"\n')] == [
        (HOUR, 2.5)
    ]
    assert [at for at, _ in found["load1", ("node", "node-a")]] == [HOUR, HOUR + 15]


def test_each_hour_has_a_file_and_the_oldest_are_deleted_over_the_size(tmp_path):
    line = recorded_lines([load(1.0)], "node-a", HOUR)
    (tmp_path / "node-a-b-20200101T00Z.om").write_bytes(b"x" * 1000)  # another node's
    spool = Spool(tmp_path, "node-a", most=3 * len(line) + 20)
    for hour in range(5):
        at = HOUR + 3600 * hour
        spool.write(at, recorded_lines([load(1.0)], "node-a", at))
    spool.close()
    names = sorted(path.name for path in tmp_path.iterdir())
    assert "node-a-20251115T04Z.om" in names
    assert "node-a-20251115T00Z.om" not in names
    assert "node-a-b-20200101T00Z.om" in names
    assert sum(p.stat().st_size for p in tmp_path.glob("node-a-2025*")) <= 3 * len(line) + 20


def test_a_size_below_an_hour_is_an_error_that_names_the_flag(tmp_path):
    spool = Spool(tmp_path, "node-a", most=40)
    many = recorded_lines([load(1.0)] * 5, "node-a", HOUR)
    with pytest.raises(SpoolError, match="raise --max-size, or record fewer metrics"):
        spool.write(HOUR, many)
    spool.close()


def test_a_line_cut_by_a_crash_is_removed_and_never_read(tmp_path):
    spool = Spool(tmp_path, "node-a", most=1 << 20)
    spool.write(HOUR, recorded_lines([load(1.0)], "node-a", HOUR))
    (file,) = tmp_path.iterdir()
    with file.open("ab") as cut:
        cut.write(b'load1{node="node-a"} 2 17631')
    os.close(spool._file)  # as the end of the process does
    assert read(file) == {("load1", ("node", "node-a")): [(HOUR, 1.0)]}
    again = Spool(tmp_path, "node-a", most=1 << 20)
    again.write(HOUR + 30, recorded_lines([load(3.0)], "node-a", HOUR + 30))
    again.close()
    assert read(file) == {("load1", ("node", "node-a")): [(HOUR, 1.0), (HOUR + 30, 3.0)]}
    assert file.read_text().count("# EOF") == 1


def test_a_restart_within_the_hour_continues_the_file(tmp_path):
    for number in range(3):
        spool = Spool(tmp_path, "node-a", most=1 << 20)
        at = HOUR + 15 * number
        spool.write(at, recorded_lines([load(number)], "node-a", at))
        spool.close()
    (file,) = tmp_path.iterdir()
    assert file.read_text().count("# EOF") == 1
    assert len(read(file)["load1", ("node", "node-a")]) == 3


def test_two_processes_do_not_write_one_file(tmp_path):
    first = Spool(tmp_path, "node-a", most=1 << 20)
    first.write(HOUR, recorded_lines([load(1.0)], "node-a", HOUR))
    second = Spool(tmp_path, "node-a", most=1 << 20)
    with pytest.raises(SpoolError, match="is being written by another process"):
        second.write(HOUR, recorded_lines([load(2.0)], "node-a", HOUR))
    second.close()
    first.write(HOUR + 15, recorded_lines([load(3.0)], "node-a", HOUR + 15))
    first.close()
    (file,) = tmp_path.iterdir()
    assert [value for _, value in read(file)["load1", ("node", "node-a")]] == [1.0, 3.0]
    assert file.read_text().count("# EOF") == 1


def test_samples_are_taken_at_equal_intervals_until_the_end(tmp_path):
    now, waits = [HOUR], []

    def wait(seconds):
        waits.append(seconds)
        now[0] += seconds
        return False

    def slow():
        now[0] += 2.0
        return [load(1.0)]

    spool = Spool(tmp_path, "node-a", most=1 << 20)
    command.record(spool, "node-a", slow, every=15, duration=60, wait=wait, clock=lambda: now[0])
    (file,) = tmp_path.iterdir()
    times = [at - HOUR for at, _ in read(file)["load1", ("node", "node-a")]]
    assert times == [0, 15, 30, 45, 60]
    assert set(waits) == {13.0}


def test_only_named_metrics_are_recorded():
    assert command.chosen([load(1.0), load(2.0, "other")], frozenset({"other"})) == [
        load(2.0, "other")
    ]


def test_a_folder_that_cannot_be_used_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SpoolError, match="cannot be used"):
        Spool(tmp_path / "file" / "folder", "node-a", most=1 << 20)


@pytest.mark.e2e
def test_the_program_records_until_a_signal(tmp_path):
    program = subprocess.Popen(
        [
            *(sys.executable, "-P", "-m", "agent", "record", f"--dir={tmp_path}", "--every=1s"),
            *("--node.name=node-a", "--collector.disable-defaults", "--collector.loadavg"),
            "--metrics=node_load1",
        ]
    )
    try:
        while not any(path.stat().st_size for path in tmp_path.glob("*.om")):
            assert program.poll() is None
            time.sleep(0.05)
        program.send_signal(signal.SIGTERM)
        assert program.wait() == 0
    finally:
        program.kill()
    found = read(*tmp_path.iterdir())
    assert [*found] == [("node_load1", ("node", "node-a"))]
    assert all(path.read_text().endswith("# EOF\n") for path in tmp_path.iterdir())


def test_mistyped_metric_is_an_error(tmp_path, capsys):
    with pytest.raises(SystemExit) as exited:
        command.main([f"--dir={tmp_path}", "--metrics=node_load1,node load"])
    assert exited.value.code == 2
    assert "not the name of a metric: 'node load'" in capsys.readouterr().err
