"""Parts of pages that raise: what they raise for is left out, and the page says so."""

from functools import partial

import pytest

from evaluator.core.isolation import uncounted
from evaluator.core.pages.part import PagePart
from evaluator.features.pages.guarded import LEFT_OUT, guarded


def raising(*_about):
    raise ValueError("odd")


@pytest.mark.parametrize("function", [raising, partial(raising, 1)])
def test_part_that_raises_is_left_out_and_the_page_says_so(function):
    part, notice = guarded([PagePart(pod=function)], uncounted("pages"))
    assert [*notice.notices()] == []
    assert part.pod("shop/web") is None
    assert [*notice.notices()] == [LEFT_OUT]
