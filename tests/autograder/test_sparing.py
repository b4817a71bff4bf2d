"""What is spared changes nothing: the same operators are known, the same graphs and guards come of it."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._dynamo import guards
from torch._export import utils
from torch.library import Library

from autograder.exchange.sparing import spare


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """torch as it is, noting what it does at length; then spared anew, whatever this process spared before."""
    done: list[str] = []

    def noted(name: str) -> Callable[..., float]:
        def look(*_: Any) -> float:
            done.append(name)
            return 0.0

        return look

    monkeypatch.setattr(utils, "_materialize_cpp_cia_ops", noted("operators"))
    monkeypatch.setattr(guards, "profile_guard_manager", noted("guards"))
    spare()
    return done


def test_operators_are_looked_up_once_and_again_when_one_was_registered(looks: list[str]) -> None:
    utils._materialize_cpp_cia_ops()
    utils._materialize_cpp_cia_ops()
    assert looks == ["operators"]
    library = Library("fxopt_sparing", "FRAGMENT")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CompositeImplicitAutograd")
    utils._materialize_cpp_cia_ops()
    assert looks == ["operators"] * 2
    utils._materialize_cpp_cia_ops()
    assert looks == ["operators"] * 2


def test_guards_are_not_timed_and_still_hold(looks: list[str]) -> None:
    compiled = 0

    def backend(graph_module: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        nonlocal compiled
        compiled += 1
        return graph_module.forward

    torch._dynamo.reset()
    function = torch.compile(lambda x: x.sin(), backend=backend, dynamic=False)
    for size in (2, 2, 3):
        assert torch.equal(function(torch.ones(size)), torch.ones(size).sin())
    torch._dynamo.reset()
    assert compiled == 2
    assert looks == []


def test_sparing_twice_is_sparing_once(looks: list[str]) -> None:
    first = utils._materialize_cpp_cia_ops
    assert first.spared  # type: ignore[attr-defined]
    spare()
    assert utils._materialize_cpp_cia_ops is first
