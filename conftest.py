"""How the tests are spread over processes: a file stays whole, but every task of the exercise gate goes by itself."""

from __future__ import annotations

import pytest


def pytest_itemcollected(item: pytest.Item) -> None:
    """Tests of one file share its fixtures, the cells of a notebook its kernel; the gate's tasks share nothing."""
    # Not in pytest_collection_modifyitems: pytest-xdist reads the marks there, before this file has its turn.
    if item.get_closest_marker("gate") is None:
        item.add_marker(pytest.mark.xdist_group(str(item.path)))
