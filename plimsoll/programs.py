"""Entry points of the programs: they start one, or say which extra of the package to install."""

import importlib
import sys
from collections.abc import Sequence

_OURS = (
    "agent",
    "collectors",
    "evaluator",
    "kubectl_plimsoll",
    "lab",
    "plimsoll",
    "sandbox",
    "wire",
)


def agent() -> int:
    """Run plimsoll-agent."""
    return run("plimsoll-agent", "agent.main", "agent")


def evaluator() -> int:
    """Run plimsoll-evaluator."""
    return run("plimsoll-evaluator", "evaluator.main", "evaluator")


def sandbox() -> int:
    """Run plimsoll-sandbox."""
    return run("plimsoll-sandbox", "sandbox.main", "sandbox")


def kubectl() -> int:
    """Run kubectl-plimsoll."""
    return run("kubectl-plimsoll", "kubectl_plimsoll.main", "kubectl")


def run(program: str, module: str, extra: str, arguments: Sequence[str] | None = None) -> int:
    """Call `main` of a module, and return its exit status; 1 with a sentence if something is not installed.

    `extra`: that of the Python package, which has what the module imports. `arguments`: None for those of the process.
    """
    try:
        main = importlib.import_module(module).main
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if missing == module.partition(".")[0]:
            return _fail(
                f"{program} is not in this image. Use the image plimsoll/tools, or in a checkout: pip install '.[{extra}]'"
            )
        if missing.partition(".")[0] in _OURS:
            raise
        return _fail(
            f"{program}: {missing} is not installed. Install the program's dependencies, in a checkout: pip install '.[{extra}]'"
        )
    status: int = main() if arguments is None else main(arguments)
    return status


def _fail(sentence: str) -> int:
    print(sentence, file=sys.stderr)  # noqa: T201 - logging may be what is missing
    return 1
