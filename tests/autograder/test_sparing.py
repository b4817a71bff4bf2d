"""What is spared changes nothing: the same operators are known, the same graphs and guards come of it."""

import gc
import sys
import traceback
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._dynamo import guards
from torch._export import utils
from torch.library import Library

from autograder.exchange.sparing import nothing_collected, only_a_processor, spare, spare_later, spare_seeding

UNSPARED = torch.random._manual_seed_impl
"""As torch has it: tests are collected before anything is spared."""


def unspared_look() -> None:
    """Stands for torch's own function."""


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


def test_dynamo_is_spared_once_somebody_has_imported_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(utils, "_materialize_cpp_cia_ops", unspared_look)
    with monkeypatch.context() as before:
        before.delitem(sys.modules, "torch._dynamo")
        spare_later()
        assert utils._materialize_cpp_cia_ops is unspared_look
        assert "torch._dynamo" not in sys.modules
    spare_later()
    assert utils._materialize_cpp_cia_ops.spared  # type: ignore[attr-defined]


@pytest.mark.skipif(not only_a_processor(), reason="an accelerator is there, and is seeded as torch does it")
def test_seeding_notes_nothing_for_devices_that_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same numbers come, and the same seeds are refused; no stack is written down for later."""
    monkeypatch.setattr(torch.random, "_manual_seed_impl", UNSPARED)
    written: list[int] = []
    monkeypatch.setattr(traceback, "format_stack", lambda *_: written.append(1) or [])
    wanted = (torch.manual_seed(7).initial_seed(), torch.rand(3), torch.manual_seed(-3).initial_seed())
    assert written
    written.clear()
    spare_seeding()
    found = (torch.manual_seed(7).initial_seed(), torch.rand(3), torch.manual_seed(-3).initial_seed())
    assert written == []
    assert (found[0], found[2]) == (wanted[0], wanted[2])
    assert torch.equal(found[1], wanted[1])
    with pytest.raises(ValueError, match="invalid literal"):
        torch.manual_seed("seven")  # type: ignore[arg-type]


def test_nothing_is_collected_while_it_is_imported_nor_looked_through_later() -> None:
    phases: list[str] = []

    def seen(phase: str, _: dict[str, int]) -> None:
        phases.append(phase)

    def make() -> list[list[int]]:
        return [[number] for number in range(100_000)]

    gc.callbacks.append(seen)
    try:
        make()
        assert phases, "so many objects are looked through, as a rule"
        phases.clear()
        with nothing_collected():
            made = make()
            assert phases == []
        assert gc.isenabled()
        assert not any(one is made for one in gc.get_objects())
        gc.disable()
        with nothing_collected():
            pass
        assert not gc.isenabled(), "whoever had switched it off still has"
    finally:
        gc.callbacks.remove(seen)
        gc.enable()
