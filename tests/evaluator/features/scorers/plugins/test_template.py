from evaluator.core.model.node_index import NodeIndex
from evaluator.core.model.requests import PodView
from evaluator.features.scorers.plugin import ClusterSnapshot, Scorer
from evaluator.features.scorers.plugins.template import Template


def test_every_node_passes_and_scores_one():
    template: Scorer = Template()
    result = template.score(ClusterSnapshot(NodeIndex(("a", "b"))), PodView())
    assert [refusal.where.tolist() for refusal in result.refusals["template"]] == [[False, False]]
    assert result.scores["template"].tolist() == [1, 1]


def test_no_nodes_is_no_error():
    result = Template().score(ClusterSnapshot(NodeIndex()), PodView())
    assert result.scores["template"].tolist() == []
