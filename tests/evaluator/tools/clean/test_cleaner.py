"""The cleaner checks all nodes once more after its last write."""

from functools import partial

import pytest

from evaluator.core.model.node_labels import FIELD_MANAGER
from evaluator.features import registry
from evaluator.tools.clean.cleaner import PASSES, IncompleteError, NodeCleaner

LABELLED = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "node-a", "labels": {"demo": "violating"}},
}

WRITTEN = [feature.written for feature in registry.FEATURES if feature.written]
FEATURES = [partial(written.removals, written.options()) for written in WRITTEN]


@pytest.fixture
async def kube(api, connect):
    await api.node("node-a")
    return await connect(api.url)


@pytest.fixture
def rewriting(api, kube, monkeypatch):
    """An evaluator writes the label again before each of the first so many lists."""

    def rewrite(times):
        lists, list_page = [], kube.list_page

        async def rewritten(*arguments):
            lists.append(None)
            if len(lists) <= times:
                await api.apply("/api/v1/nodes/node-a", LABELLED, FIELD_MANAGER)
            return await list_page(*arguments)

        monkeypatch.setattr(kube, "list_page", rewritten)

    return rewrite


async def test_write_of_an_evaluator_after_the_first_pass_is_removed(api, kube, rewriting):
    removed = []
    rewriting(2)
    await NodeCleaner(kube, FEATURES, pause=0).run(lambda node, what: removed.append((node, what)))
    assert removed == [("node-a", ["label demo"])] * 2
    assert await api.labels("node-a") == {}


async def test_evaluator_that_goes_on_writing_is_reported(kube, rewriting):
    rewriting(PASSES)
    with pytest.raises(
        IncompleteError, match="what was removed is written again, at last on node-a"
    ):
        await NodeCleaner(kube, FEATURES, pause=0).run(lambda _node, _what: None)


async def test_clean_nodes_need_no_second_list(kube, rewriting):
    rewriting(0)
    await NodeCleaner(kube, FEATURES, pause=1e9).run(lambda _node, _what: None)
