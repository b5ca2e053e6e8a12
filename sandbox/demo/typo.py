"""A demo step: a policy with a misspelt metric is caught before it is applied, and reported after."""

import asyncio
import json
import shlex
from collections.abc import Mapping
from typing import Any

from sandbox.client import events
from sandbox.client.objects import POLICIES, Object
from sandbox.demo import shell
from sandbox.demo.stage import Stage
from sandbox.programs import evaluator_subcommand

_NAME = "typo-policy"
_RIGHT, _WRONG = "health_metric", "health_metrc"
_FOUND = "MetricsFound"


class TypoDemo:
    """The step."""

    def __init__(self, stage: Stage, namespace: str) -> None:
        self._stage = stage
        self._api = stage.cluster.client
        self._narrator = stage.narrator
        self._namespace = namespace

    async def run_steps(self) -> None:
        """Run the step. Raises NotSeenError if an effect is not observed."""
        self._narrator.step("A typo is caught: a policy names health_metrc")
        self._narrator.paragraph("`check` compares its metrics with those that Plimsoll ships:")
        policy = self._policy(_WRONG)
        document = shlex.quote(json.dumps(policy))
        program = shell.program("plimsoll-evaluator")
        self._narrator.print_action(f"echo {document} | {program} check -")
        warning = await self._narrator.wait_for(
            "a warning names the right metric", lambda: self._warning(policy)
        )
        self._narrator.print_output(warning)
        self._narrator.paragraph(
            "Applied all the same, it changes nothing, and its status names the mistake:"
        )
        self._narrator.print_action(f"echo {document} | kubectl apply -f -")
        await self._api.create(POLICIES, policy)
        condition = await self._narrator.wait_for(
            f"the condition {_FOUND} is False and names the metric that nodes have",
            lambda: self._condition("False", saying=_RIGHT),
        )
        self._narrator.print_output(f"{condition['reason']}: {condition['message']}")
        event = await self._narrator.wait_for(
            "an event reports it, once",
            lambda: events.find(self._api, self._namespace, _NAME, "MetricNotFound"),
        )
        self._narrator.print_output(f"{event['reason']}: {event['message']}")
        patch = {"spec": self._policy(_RIGHT)["spec"]}
        self._narrator.print_action(
            f"kubectl -n {self._namespace} patch taspolicy {_NAME} --type=merge -p {shlex.quote(json.dumps(patch))}"
        )
        await self._api.patch(POLICIES, _NAME, patch, self._namespace)
        await self._narrator.wait_for(
            f"corrected, the condition {_FOUND} is True", lambda: self._condition("True")
        )

    def _policy(self, metric: str) -> Object:
        rules = [{"metricname": metric, "operator": "GreaterThan", "target": 1}]
        return {
            "apiVersion": POLICIES.api_version,
            "kind": "TASPolicy",
            "metadata": {"name": _NAME, "namespace": self._namespace},
            "spec": {"strategies": {"dontschedule": {"rules": rules}}},
        }

    async def _warning(self, policy: Object) -> str | None:
        """Return the warning that `check` prints; None if it prints none."""
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *evaluator_subcommand("check", "-"), stdin=pipe, stdout=pipe
        )
        printed, _ = await process.communicate(json.dumps(policy).encode())
        lines = (line.strip() for line in printed.decode().splitlines())
        return next((line for line in lines if line.startswith("warning: ")), None)

    async def _condition(self, status: str, *, saying: str = "") -> Mapping[str, Any] | None:
        policy = await self._api.get(POLICIES, _NAME, self._namespace)
        conditions = policy.get("status", {}).get("conditions", ())
        return next(
            (
                condition
                for condition in conditions
                if (condition["type"], condition["status"]) == (_FOUND, status)
                and saying in condition["message"]
            ),
            None,
        )
