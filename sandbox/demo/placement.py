"""The demo of placement: the shipped policy `balance` beside kube-scheduler's default plugins, in a simulated cluster.

It runs `plimsoll simulate`, which needs no cluster, and writes a picture of each run: the use of every node over time.
"""

import asyncio
import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from plimsoll import logs
from sandbox import manifests
from sandbox.config import DemoSettings
from sandbox.demo import shell
from sandbox.demo.narrator import Narrator
from sandbox.programs import evaluator_subcommand

POLICY = Path("examples/balance/policy.yaml")
ARGUMENTS = ("--nodes=20", "--load=0.6", "--weight=5")
ARRIVALS: Mapping[str, Sequence[str]] = {
    "steady": (),
    "burst": ("--burst",),
}
_ABOUT = {
    "steady": "Pods arrive one by one",
    "burst": "A third of the pods arrives at once, every half hour",
}
_FIGURES = {
    "hot_percent": "node-minutes over 80 % of CPU",
    "unmet_percent": "CPU demand not met",
    "deviation_percent": "standard deviation between nodes",
    "most_percent": "highest demand on one node",
}


class SimulationError(Exception):
    """The simulation did not end with status 0; the message is what it wrote."""


async def run_placement(settings: DemoSettings, *, arguments: Sequence[str] = ARGUMENTS) -> int:
    """Run both simulations and write their pictures; return the exit status, 0 only if both runs ended well."""
    logs.setup("error")
    narrator = Narrator()
    narrator.title("Plimsoll: spread pods by what nodes use, in a simulated cluster of 20 nodes")
    narrator.paragraph(
        "The decisions and answers are the evaluator's; kube-scheduler's default scores and the pods are simulated. Requests are "
        "what such pods use on average, so the default plugins spread requests evenly, and use unevenly."
    )
    folder = _folder(settings.dir)
    pictures = []
    for name, flags in ARRIVALS.items():
        narrator.step(_ABOUT[name])
        pictures.append(folder / f"placement-{name}.svg")
        given = (*arguments, *flags, f"--picture={pictures[-1]}")
        words = ["-f", shell.path(manifests.folder() / POLICY), *map(shlex.quote, given)]
        narrator.print_action(f"{shell.program('plimsoll-evaluator')} simulate {' '.join(words)}")
        try:
            found = await _simulated(given)
        except SimulationError as error:
            narrator.print_output(str(error))
            return 1
        narrator.paragraph(f"{'':38}{'default':>10}{'balance':>10}")
        for figure, meaning in _FIGURES.items():
            before, after = found["default"][figure], found["simulated"][figure]
            narrator.paragraph(f"{meaning:38}{before:>8.1f} %{after:>8.1f} %")
    narrator.step("The pictures: one line per node, the default plugins on the left")
    for picture in pictures:
        narrator.suggest(shell.path(picture))
    return 0


def _folder(path: str) -> Path:
    """Return the folder of the pictures, which is created."""
    folder = Path(path or ".")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


async def _simulated(arguments: Sequence[str]) -> Mapping[str, Any]:
    """Return the report of `plimsoll simulate`. Raises SimulationError."""
    policy = f"--file={manifests.folder() / POLICY}"
    command = evaluator_subcommand("simulate", policy, *arguments, "--output=json")
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, errors = await process.communicate()
    if process.returncode:
        raise SimulationError(errors.decode(errors="replace").strip())
    found: Mapping[str, Any] = json.loads(out)
    return found
