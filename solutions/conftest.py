"""nbval runs the notebooks as if the device were MPS: what MPS lacks is refused, on a machine without one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Around each cell; the kernel of a notebook starts with the first one, and inherits the environment."""
    # pytest calls this for every test of the run, once this file has been read.
    if not item.path.is_relative_to(HERE):
        return (yield)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FXOPT_AS_IF", "mps")
        return (yield)
