"""Child processes: started on held ports, reported when they exit, never left behind."""

import asyncio
import os
import signal
import socket
import sys
import textwrap

import psutil
import pytest

from sandbox.processes import HeldPort, ProcessError, Processes

pytestmark = pytest.mark.e2e

WAIT = (sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)")
STUBBORN = (
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)",
)


def alive(pid):
    """Whether a process runs; a zombie does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def says_up(tmp_path, name="p"):
    path = tmp_path / f"{name}.log"
    return lambda: path.exists() and "up" in path.read_text()


async def test_output_goes_to_a_log_and_stop_leaves_nothing(tmp_path, eventually):
    processes = Processes(tmp_path)
    pid = await processes.start("p", WAIT)
    await eventually(says_up(tmp_path))
    assert processes.pid("p") == pid
    await processes.stop("p")
    assert not alive(pid)
    assert processes.pid("p") is None


async def test_close_stops_all_and_kills_processes_that_ignore_sigterm(tmp_path, eventually):
    processes = Processes(tmp_path, stop_timeout=0.2)
    pids = [await processes.start("p", WAIT), await processes.start("q", STUBBORN)]
    await eventually(says_up(tmp_path, "p"))
    await eventually(says_up(tmp_path, "q"))
    await processes.close()
    assert not any(alive(pid) for pid in pids)


FAMILY = ("sh", "-c", "sh -c 'sleep 600 & echo $! up; wait' & wait")


@pytest.mark.parametrize("kill", [False, True])
async def test_stop_ends_grandchildren(tmp_path, eventually, kill):
    processes = Processes(tmp_path)
    pid = await processes.start("p", FAMILY)
    await eventually(says_up(tmp_path))
    grandchild = int((tmp_path / "p.log").read_text().split()[0])
    assert alive(grandchild)
    await processes.stop("p", kill=kill)
    assert not alive(pid)
    assert not alive(grandchild)


async def test_exit_is_reported_and_not_restarted(tmp_path, eventually):
    deaths = []
    processes = Processes(tmp_path, on_death=lambda *death: deaths.append(death))
    script = "import sys; print('no luck'); sys.exit(3)"
    await processes.start("p", (sys.executable, "-c", script))
    await eventually(lambda: deaths)
    assert deaths == [("p", 3)]
    with pytest.raises(ProcessError, match=r"p died; .*p\.log ends with:\n    no luck"):
        processes.check("p")
    with pytest.raises(ProcessError, match="does not run"):
        await processes.stop("p")
    await processes.close()


async def test_requested_stop_is_not_reported_as_an_exit(tmp_path):
    deaths = []
    processes = Processes(tmp_path, on_death=lambda *death: deaths.append(death))
    await processes.start("p", WAIT)
    await processes.stop("p", kill=True)
    await processes.close()
    assert deaths == []


async def test_name_runs_once(tmp_path):
    processes = Processes(tmp_path)
    await processes.start("p", WAIT)
    with pytest.raises(ProcessError, match="runs already"):
        await processes.start("p", WAIT)
    await processes.close()


async def test_missing_program_is_an_error(tmp_path, eventually):
    deaths = []
    processes = Processes(tmp_path, on_death=lambda *death: deaths.append(death))
    await processes.start("p", ("/nonexistent/program",))
    await eventually(lambda: deaths)
    with pytest.raises(ProcessError, match="No such file"):
        processes.check("p")


async def test_proxy_variables_are_not_inherited(tmp_path, monkeypatch, eventually):
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.invalid:1")
    monkeypatch.setenv("http_proxy", "http://proxy.invalid:1")
    processes = Processes(tmp_path)
    script = "import os; print([k for k in os.environ if 'proxy' in k.lower()], 'up')"
    await processes.start("p", (sys.executable, "-c", script))
    await eventually(says_up(tmp_path))
    assert "[] up" in (tmp_path / "p.log").read_text()
    await processes.close()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_no_child_outlives_a_killed_supervisor(spawn, tmp_path, eventually, number):
    script = textwrap.dedent(f"""
        import asyncio
        from pathlib import Path
        from plimsoll import logs
        from sandbox.processes import Processes

        logs.setup()

        async def main():
            processes = Processes(Path({str(tmp_path)!r}))
            print(await processes.start("p", {WAIT!r}), await processes.start("q", {STUBBORN!r}), flush=True)
            await asyncio.Event().wait()

        asyncio.run(main())
    """)
    supervisor = await spawn(sys.executable, "-c", script)
    pids = [int(pid) for pid in (await supervisor.stdout.readline()).split()]
    await eventually(says_up(tmp_path, "p"))
    await eventually(says_up(tmp_path, "q"))
    assert all(alive(pid) for pid in pids)
    supervisor.send_signal(number)
    await supervisor.wait()
    await eventually(lambda: not any(alive(pid) for pid in pids))


async def test_child_of_a_dead_supervisor_exits(spawn):
    from sandbox import pdeathsig

    gone = await spawn(sys.executable, "-c", "")
    await gone.wait()
    child = await spawn(sys.executable, "-I", "-S", pdeathsig.__file__, str(gone.pid), *WAIT)
    _, text = await child.communicate()
    assert (child.returncode, text.decode().strip()) == (1, f"process {gone.pid} is gone")


async def test_held_port_is_reserved_for_its_program():
    port = HeldPort()
    for _ in range(2):  # also a second time: a restarted program
        server = await asyncio.start_server(
            lambda _, writer: writer.close(), "127.0.0.1", port.number
        )
        server.close()
        await server.wait_closed()
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", port.number))
    with pytest.raises(OSError, match="Connect call failed"):
        await asyncio.open_connection("127.0.0.1", port.number)
    port.close()


def test_port_in_use_is_reported():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        with pytest.raises(ProcessError, match=f"port {number} on 127.0.0.1 is not free"):
            HeldPort(number)


def test_own_environment_is_unchanged(monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.invalid:1")
    from sandbox.processes import loopback_environment

    assert "HTTPS_PROXY" not in loopback_environment()
    assert os.environ["HTTPS_PROXY"] == "http://proxy.invalid:1"
