"""A decision in a folder, with what its engine compiled; taken up again without another search."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
import weakref
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from fxopt_core.optimizer.engines import Request, Taken
from fxopt_core.verification import Tolerance
from fxopt_workbench.engines import registry
from fxopt_workbench.engines.decision import Decision, Trial, base_versions, digest, machine
from fxopt_workbench.engines.engine import EAGER
from fxopt_workbench.engines.places import place_of, unchanged
from fxopt_workbench.engines.showing import document
from fxopt_workbench.files import write_whole

DECISION, ARTEFACT, SHARED = "decision.json", "artefact", "onnx"
"""What lies in the folder of a decision: itself, what its engine compiled, and the graph as ONNX."""


class StaleError(ValueError):
    """A saved decision does not fit here any more; the message says what has changed."""


def key(device: str, versions: Mapping[str, str]) -> str:
    """A short name for a machine with its versions."""
    text = json.dumps([device, sorted(versions.items())])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def save(decision: Decision, folder: Path | str) -> Path:
    """Write a decision, and what its engine compiled, into a folder that may hold those of other machines too.

    Returns:
        The folder of this one.

    Raises:
        OSError: it cannot be written.
    """
    own = Path(folder) / key(decision.device, decision.versions)
    own.mkdir(parents=True, exist_ok=True)
    engine = registry.load(registry.references()[decision.taken]) if decision.taken != EAGER else None
    for name in (ARTEFACT, SHARED):
        shutil.rmtree(own / name, ignore_errors=True)
    if engine is not None and engine.artefact and decision.folder is not None:
        for source, name in ((decision.folder / decision.taken, ARTEFACT), (decision.folder / SHARED, SHARED)):
            if source.exists():
                shutil.copytree(source, own / name, ignore=shutil.ignore_patterns("log.txt", "lock"))
    # Last, so that what is there without it is no decision.
    write_whole(own / DECISION, json.dumps(document(decision), indent=2, allow_nan=False))
    return own


def load(folder: Path | str) -> Saved:
    """The decision that was saved for this machine with these versions; to be given as `engine`.

    Raises:
        StaleError: there is none for them; the message says for which there is one.
    """
    found = {one.parent.name: json.loads(one.read_text()) for one in sorted(Path(folder).glob(f"*/{DECISION}"))}
    here = machine()
    others = []
    for name, written in found.items():
        now = _versions_now(written["versions"])
        if written["device"] == here and written["versions"] == now:
            return Saved(_read(written), Path(folder) / name)
        versions = written["versions"].items()
        changed = [f"{what} {then}, here {now[what]}" for what, then in versions if now[what] != then]
        others.append("; ".join([*([] if written["device"] == here else [f"on {written['device']}"]), *changed]))
    listed = f" There is one made with {' | '.join(others)}." if others else ""
    raise StaleError(
        f'{folder} holds no decision for this machine and these versions.{listed} Choose with engine="auto".'
    )


class Saved:
    """A decision from a folder, as an engine.

    Args:
        decision: what was decided.
        folder: with what the engine compiled.
    """

    def __init__(self, decision: Decision, folder: Path) -> None:
        self.decision, self.folder = decision, folder

    def __call__(self, request: Request) -> Taken:
        """The model over the engine that was taken, compared with the model on the example once more.

        Raises:
            StaleError: the graph, its weights or its sizes are others now, or the engine does not do what it did.
        """
        decision = self.decision
        stands = place_of(request)
        if digest(stands.program.graph, stands.program.example) != decision.program:
            raise StaleError(
                "the decision was made for another graph: the model, its weights, the passes or the sizes of the "
                'example have changed since. Choose again with engine="auto".'
            )
        if decision.taken == EAGER:
            return Taken(unchanged(request), decision)
        engine = registry.load(registry.references()[decision.taken])
        folder = tempfile.TemporaryDirectory(prefix="fxopt-engines-")
        place = Path(folder.name)
        (place / decision.taken).mkdir()
        for name, target in ((ARTEFACT, decision.taken), (SHARED, SHARED)):
            if (self.folder / name).exists():
                shutil.copytree(self.folder / name, place / target, dirs_exist_ok=True)
        with torch.set_grad_enabled(request.gradients):
            module = stands.over(engine, place / decision.taken, decision.threads)
        gradients = "all" if request.gradients else "none"
        same = request.compare(module, tolerance=decision.tolerance, gradients=gradients, adversarial=False)
        if not same:
            raise StaleError(
                f"{decision.taken} does something else than the model now: {same.differences[0]}. "
                'Choose again with engine="auto".'
            )
        kept = replace(decision, folder=place)
        weakref.finalize(kept, folder.cleanup)
        return Taken(module, kept)


def _versions_now(names: Mapping[str, str]) -> dict[str, str]:
    now = base_versions()
    for where in registry.references().values():
        now |= registry.load(where).versions()
    return {name: now.get(name, "not installed") for name in names}


def _read(written: dict[str, Any]) -> Decision:
    """A decision from its JSON form."""
    trials = tuple(
        Trial(
            one["engine"],
            one["setup_seconds"],
            tuple(one["seconds"]),
            one["largest_error"],
            one["refusal"] or "",
            one["caveat"] or "",
        )
        for one in written["trials"]
    )
    return Decision(
        written["taken"],
        written["why"],
        trials,
        Tolerance(written["tolerance"]["relative"], written["tolerance"]["absolute"]),
        written["budget_seconds"],
        written["spent_seconds"],
        written["threads"],
        written["device"],
        written["versions"],
        written["program"],
    )
