"""Thousands of simulated agents that speak the real protocol to one evaluator, each on a connection of its own.

Each introduces itself, takes the subscription, answers it in full, then says after each interval which of its readings
have changed; it heartbeats where none has, and comes back after a loss as soon as the real agent would. They live in a few
processes of their own, so that their work is not taken for the evaluator's. To try one by hand:

    python -P bench/fleet.py 127.0.0.1:9091 --agents 5000 --interval 10s --share 0.01

Other benchmarks use it so:

    with Fleet("127.0.0.1:9091", nodes, Habits(interval=10.0, share=0.01), authority=authority) as fleet:
        await fleet.until(connected=len(nodes))
        fleet.habits = Habits(interval=0.0, share=1.0)
        print(fleet.reports)
"""

import argparse
import asyncio
import multiprocessing
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.context import SpawnProcess
from pathlib import Path
from types import TracebackType
from typing import Any

import grpc
import numpy as np

from bench import fleetagent
from bench.authority import Authority
from bench.fleetagent import COLUMNS, HABITS, Column, Habits
from plimsoll import durations, logs

_CONTEXT = multiprocessing.get_context("spawn")


@dataclass(frozen=True, slots=True)
class Spread:
    """How long something took, over all agents, in seconds."""

    p50: float
    p99: float
    longest: float

    @classmethod
    def of(cls, seconds: Any) -> "Spread":
        """Of a numpy array; NaN where it is empty."""
        if not len(seconds):
            return cls(*[float("nan")] * 3)
        return cls(*(round(float(q), 4) for q in np.quantile(seconds, (0.5, 0.99, 1.0))))


class Fleet:
    """Agents of these nodes from `start()` to `stop()`, or as a context. Without an authority they speak in plain text.

    What they go through is in memory that they share with the one who asks: looking costs them nothing. Times in it are
    time.monotonic()'s.
    """

    def __init__(
        self,
        address: str,
        nodes: Sequence[str],
        habits: Habits | None = None,
        *,
        processes: int = 2,
        authority: Authority | None = None,
    ) -> None:
        self._address = address
        self._nodes = list(nodes)
        self._count = max(1, min(processes, len(self._nodes)))
        self._authority = authority
        self._shared = _CONTEXT.Array("d", len(self._nodes) * COLUMNS, lock=False)
        self._orders = _CONTEXT.Array("d", HABITS, lock=False)
        self._table = np.frombuffer(self._shared).reshape(-1, COLUMNS)
        self._processes: list[SpawnProcess] = []
        self.habits = habits or Habits()

    @property
    def habits(self) -> Habits:
        """How often they report, and how much of it is new; can be changed at any time, and counts from the next report."""
        return Habits(*self._orders[:])

    @habits.setter
    def habits(self, wanted: Habits) -> None:
        self._orders[:] = wanted

    def start(self) -> None:
        """Begin to connect."""
        for number in range(self._count):
            mine = slice(number, None, self._count)
            process = _CONTEXT.Process(
                target=fleetagent.run,
                args=(
                    self._address,
                    self._nodes,
                    mine,
                    self._shared,
                    self._orders,
                    self._authority,
                ),
                daemon=True,
            )
            process.start()
            self._processes.append(process)

    def stop(self) -> None:
        """End them all at once, as when a power supply fails."""
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.join()
        self._processes.clear()
        self._table[:, Column.CONNECTED] = 0

    def __enter__(self) -> "Fleet":
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def column(self, which: Column) -> Any:
        """One figure of each agent, in the order of the nodes: an array of its own."""
        return self._table[:, which].copy()

    @property
    def connected(self) -> int:
        """How many have a stream on which they were told what to report."""
        return int(self._table[:, Column.CONNECTED].sum())

    @property
    def reports(self) -> int:
        """Reports that were sent so far."""
        return int(self._table[:, Column.REPORTS].sum())

    @property
    def losses(self) -> int:
        """Streams that were lost or did not come about so far."""
        return int(self._table[:, Column.LOSSES].sum())

    @property
    def reasons(self) -> dict[str, int]:
        """How the latest loss of each agent that had one came about, by gRPC's status."""
        lost = self._table[self._table[:, Column.LOSSES] > 0]
        names = {code.value[0]: code.name for code in grpc.StatusCode}
        return dict(Counter(names[int(row[Column.CODE])] for row in lost))

    async def until(
        self, *, connected: int = 0, generation: int = 0, timeout: float = 120.0
    ) -> None:
        """Wait until so many are connected, and all of those have answered this subscription or a later one.

        Raises TimeoutError.
        """
        end = time.monotonic() + timeout
        while not (self.connected >= connected and self._answered(generation)):
            if time.monotonic() > end:
                raise TimeoutError(
                    f"{self.connected} of {connected} agents are connected after {timeout:g} s, "
                    f"{self.losses} attempts failed: {self.reasons}"
                )
            await asyncio.sleep(0.02)

    def _answered(self, generation: int) -> bool:
        up = self._table[:, Column.CONNECTED] > 0
        return bool((self._table[up, Column.GENERATION] >= generation).all())

    def told(self, begin: float) -> Spread:
        """How long after a moment each had heard of its latest subscription."""
        return Spread.of(self.column(Column.TOLD) - begin)

    def answered(self, begin: float) -> Spread:
        """How long after a moment each had sent its full report on it."""
        return Spread.of(self.column(Column.ANSWERED) - begin)


def main() -> None:
    """Run a fleet until it is interrupted, and say once a second how it is."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("address", help="host:port of the evaluator's port for agents")
    parser.add_argument("--agents", type=int, default=5000, help="how many (default 5000)")
    parser.add_argument(
        "--prefix", default="fleet-", help="of the nodes' names, a number follows (default fleet-)"
    )
    parser.add_argument(
        "--interval",
        type=durations.duration,
        default=10.0,
        help="between two reports (default 10s)",
    )
    parser.add_argument(
        "--share", type=float, default=0.01, help="of the readings that change (default 0.01)"
    )
    parser.add_argument("--processes", type=int, default=2, help="they share (default 2)")
    parser.add_argument(
        "--authority",
        type=Path,
        help="folder with ca.crt, ca.key and node.key to make client certificates with (default: plain text)",
    )
    given = parser.parse_args()
    logs.setup("error")
    fleet = Fleet(
        given.address,
        names(given.agents, given.prefix),
        Habits(given.interval, given.share),
        processes=given.processes,
        authority=Authority(given.authority) if given.authority else None,
    )
    with fleet:
        try:
            while True:
                before = fleet.reports
                time.sleep(1)
                print(
                    f"connected {fleet.connected}, reports/s {fleet.reports - before}, losses {fleet.losses}",
                    flush=True,
                )
        except KeyboardInterrupt:
            pass


def names(count: int, prefix: str = "fleet-") -> list[str]:
    """Names for so many nodes."""
    return [f"{prefix}{number:05}" for number in range(count)]


if __name__ == "__main__":
    main()
