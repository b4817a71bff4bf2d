"""Work of torch that grading and tests would do thousands of times for nothing.

These savings change no result. They hold for a process that calls `spare`: warm processes, the judge, the tests. What a
learner runs in a notebook is torch as it is.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def nothing_collected() -> Iterator[None]:
    """Look for no cycles in here, and never again among what was made in here.

    For imports: torch and Dynamo make hundreds of thousands of objects and keep nearly all of them, and looking through
    these again and again takes an eighth of the time.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_on:
            gc.enable()


def spare() -> None:
    """Skip three costs of torch in this process; calling it again changes nothing.

    - `torch.manual_seed` notes for each kind of accelerator that nobody has used yet that it is to be seeded, and with
      each note the text of the whole stack (`_lazy_call` of `torch.cuda`, `torch.xpu` and `torch.mtia`): more than ten
      milliseconds under pytest, and the notes pile up. Where there is no such device nobody will ever read them.
    - Dynamo times each new set of guards on a flushed processor cache and writes the figure to its log
      (`torch._dynamo.guards.profile_guard_manager`), which nobody reads here.
    - Each decomposition of an exported program looks up every composite operator of every namespace anew
      (`torch._export.utils._materialize_cpp_cia_ops`). The operators change only when somebody registers one, which
      the dispatcher's own list shows. (One that is taken back and registered again under its name between two looks
      is looked up when somebody first calls it, and before that it is in no program.)
    """
    import torch
    from torch._dynamo import guards
    from torch._export import utils

    spare_seeding()
    if getattr(utils._materialize_cpp_cia_ops, "spared", False):
        return
    materialize = utils._materialize_cpp_cia_ops
    known: set[str] = set()

    def materialize_new() -> None:
        found = set(torch._C._dispatch_get_registrations_for_dispatch_key("CompositeImplicitAutograd"))
        if found != known:
            materialize()
            known.clear()
            known.update(found)

    def no_latency(guard_manager: Any, f_locals: dict[str, Any], n_iters: int) -> float:
        return 0.0

    materialize_new.spared = True  # type: ignore[attr-defined]
    utils._materialize_cpp_cia_ops = materialize_new
    guards.profile_guard_manager = no_latency


def spare_later() -> None:
    """`spare`, as far as there is something to spare by now: the seeding, and Dynamo's once somebody has imported it.

    For a process that may never need Dynamo, whose import alone takes 1.6 seconds of processor time. Called again, it
    costs next to nothing.
    """
    if "torch._dynamo" in sys.modules:
        spare()
    else:
        spare_seeding()


def spare_seeding() -> None:
    """Only the first saving of `spare`, which needs nothing imported but torch."""
    import torch

    if only_a_processor():
        torch.random._manual_seed_impl = _seed_processor


def only_a_processor() -> bool:
    """Whether there is none of the devices that `torch.manual_seed` seeds besides the processor."""
    import torch

    there = torch.cuda.device_count() or torch.xpu.device_count() or torch.mtia.is_available() or torch._C._has_mps
    return not there


def _seed_processor(seed: Any) -> Any:
    """`torch.manual_seed` where there is no accelerator but, perhaps, a backend that somebody has registered."""
    import torch

    seed = int(seed)
    torch.random._seed_custom_device(seed)
    return torch.default_generator.manual_seed(seed)
