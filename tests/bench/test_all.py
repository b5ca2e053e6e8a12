"""Running all benchmarks: each output is kept, and a failing one is reported and hides no other."""

import json
import sys

from bench import all as runner


def script(*lines):
    return [sys.executable, "-c", "\n".join(lines)]


GOOD = script('print(\'{"benchmark": "good", "p50_ms": 1.5, "aim": "p50_ms <= 1", "met": false}\')')


def run(tmp_path, **commands):
    output = tmp_path / "results" / "latest.json"
    status = runner.run_all(commands, output)
    return status, json.loads(output.read_text())


def test_results_are_kept_with_their_machine(tmp_path):
    status, result = run(tmp_path, good=GOOD)
    assert status == 0
    [line] = result["benchmarks"]["good"]["lines"]
    assert line["p50_ms"] == 1.5
    assert "failed" not in result["benchmarks"]["good"]
    assert result["python"] == ".".join(map(str, sys.version_info[:3]))
    assert {"msgspec", "grpcio"} <= result["libraries"].keys()
    assert result["machine"]["cores"] >= 1
    assert result["commit"]


def test_failing_benchmark_is_reported_and_the_next_runs(tmp_path, capfd):
    bad = script("import sys", "print('{}')", "sys.exit('out of luck')")
    status, result = run(tmp_path, bad=bad, good=GOOD)
    assert status == 1
    assert "out of luck" in result["benchmarks"]["bad"]["failed"]
    assert result["benchmarks"]["bad"]["lines"] == [{}]
    assert len(result["benchmarks"]["good"]["lines"]) == 1
    assert "bad failed" in capfd.readouterr().err


def test_benchmark_that_prints_no_json_has_failed(tmp_path):
    status, result = run(tmp_path, silent=script("pass"), chatty=script("print('fast!')"))
    assert status == 1
    assert result["benchmarks"]["silent"]["failed"] == "no line"
    assert "not JSON" in result["benchmarks"]["chatty"]["failed"]


def test_line_without_a_verdict_is_judged(tmp_path):
    line = script('print(\'{"p50_ms": 3, "aim": "p50_ms <= 2"}\')')
    unknown = script('print(\'{"aim": "p50_ms <= 2"}\')')
    _, result = run(tmp_path, line=line, unknown=unknown)
    assert result["benchmarks"]["line"]["lines"][0]["met"] is False
    assert "p50_ms" in result["benchmarks"]["unknown"]["failed"]


def test_benchmark_over_its_timeout_is_ended():
    found = runner.run(script("import time", "time.sleep(600)"), longest=0.1)
    assert "exit status -15 after" in found["failed"]


def test_every_named_benchmark_exists():
    for name, arguments in runner.BENCHMARKS.items():
        assert runner.command(name, arguments)[2].endswith(f"bench/{name}.py")
        assert (runner.HERE / f"{name}.py").is_file()
