"""Facts about operators: read from the same tables of the same wheel, with a mistake or without."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from random import Random
from typing import Any

from autograder.exchange.evidence import Case, Evidence
from autograder.exercises.u1.find_your_way.tables import FLAWS, Missing, entries, facts_of, formulas, served
from autograder.exercises.u1.find_your_way.visible import FACTS, LONGEST, MOMENTS, registered

MISCONCEPTIONS = {
    "no dictionary": f"`facts` returns a dictionary with these keys: {', '.join(FACTS)}.",
    "not refused": (
        "A name without an entry in native_functions.yaml must raise `LookupError`, with the name in its message."
    ),
    "refused": "You raised `LookupError` for an operator that has an entry.",
    "another overload": (
        "An operator's name includes its overload: `add.Tensor` and `add.Scalar` are two entries. Compare the whole "
        "name in front of the bracket."
    ),
    "line counted from 0": "Lines of a file are counted from 1, as editors and links do it.",
    "wrong line": "`line` is the number of the line `- func: NAME(…` in native_functions.yaml.",
    "delegate not followed": (
        "`structured_delegate` names another entry, and that one has the kernel. Look there for what this entry "
        "doesn't say."
    ),
    "keys not split": "One line of `dispatch` may serve several keys: `CPU, CUDA: relu`. Split at the commas.",
    "first key": (
        "The first line of `dispatch` is for whatever device it names. Look for `CPU`, then for a composite key."
    ),
    "no entry is no kernel": (
        "An entry without `dispatch` (and without a delegate) is composite implicit, with the function of its own name."
    ),
    "out forgotten": "The function of a composite implicit operator that writes into `out` is called NAME_out.",
    "out by its name": (
        "Whether an operator writes into an argument behind the `*` stands in its schema. Its name need not say so: "
        "`svd.U` does."
    ),
    "part of a key": "`MkldnnCPU` and `SparseCPU` are keys of their own: compare whole keys with `CPU`.",
    "no kernel is composite": (
        "An entry whose `dispatch` names neither `CPU` nor a composite key has no function for the processor: `None`. "
        "Only an entry without `dispatch` is composite implicit."
    ),
    "in place taken for out": (
        "`NAME_out` is for an operator that writes into an argument behind the `*`. One that works in place, such as "
        "`dropout_`, keeps its name."
    ),
    "generated loop forgotten": (
        "Where an entry has `ufunc_inner_loop`, the kernel for CPU is generated around that loop: `ufunc_NAME_CPU`."
    ),
    "wrong function": "The function isn't the one that native_functions.yaml names for dense tensors on the processor.",
    "wrong key": "The key isn't the one that serves dense tensors on the processor.",
    "last registration": (
        "`file` belongs to the dispatcher's entry for `CPU`. You took the file of another registration of this "
        "operator."
    ),
    "table of before": (
        "The dispatcher's table can change between two calls of `facts`: somebody registers a kernel, and takes it "
        "away again. You told what stood there earlier. You may keep what you read in the files of the wheel; for the "
        "table, ask the dispatcher in every call."
    ),
    "shard cut off": "The file has its number: RegisterCPU_0.cpp, not RegisterCPU.cpp.",
    "path kept": "`file` is the file's name alone: the folders are those of the machine that built the wheel.",
    "wrong file": "The file isn't the one that `torch._C._dispatch_dump_table` states for `CPU`.",
    "wrong reason": "`why` is what stands in the last square brackets of the table's line for `CPU`.",
    "inputs not split": "One formula may serve several inputs: `self, weight: …` is a formula for each of them.",
    "results among the inputs": (
        "derivatives.yaml has formulas for results, too: those are for forward mode. Keep the inputs of the schema."
    ),
    "other dispatch blocks": "Where the formulas stand in `dispatch` blocks, take the block `Default`.",
    "formulas of the function": (
        "Take what the file says under the operator's own name, and nothing where it isn't there."
    ),
    "wrong formulas": "The formulas aren't those of derivatives.yaml.",
}

LONGEST_TOLD = 900
"""Characters of a fact in a message: what was found and what was wanted are both told (see `verdict.FIGURES_LIMIT`)."""

OF_A_FACT = {
    "line": "wrong line",
    "function": "wrong function",
    "key": "wrong key",
    "file": "wrong file",
    "why": "wrong reason",
    "derivatives": "wrong formulas",
}
"""What is said where no known mistake explains a fact."""


def hidden_cases(random: Random) -> list[Case]:
    """One case for each thing that is easily forgotten, then operators from all over the file."""
    fixed = {
        "overloads": ["add.Scalar", "pow.Tensor_Scalar", "sum", "sum.dim_IntList"],
        "in place and out": [
            "add_.Tensor",
            "relu_",
            "sinc_",
            "feature_dropout_",
            "addmm.out",
            "linear.out",
            "clip.Tensor_out",
            "arctan.out",
            # Overloads that write behind the `*`, and are not called out.
            "svd.U",
            "linalg_svd.U",
            "divide.out_mode",
        ],
        # The last one's `dispatch` is there, and names nothing.
        "not for the processor": ["_cudnn_rnn", "miopen_batch_norm", "_nested_get_values"],
        "composites": ["ones_like", "zeros_like", "chunk", "reshape", "conv2d", "copy", "diag_embed"],
        # None of these writes into what stands behind its `*`.
        "behind the star": ["contiguous", "cov", "argsort.stable"],
        # The processor is not the first key of its line, nor the last.
        "keys together": ["view", "as_strided"],
        # A whole entry that was switched off stands between this one and the next.
        "beside a comment": ["arange.start"],
        # Each of these entries has a composite kernel of its own, and its delegate comes first.
        "delegated first": ["any.dims", "all.dims", "silu_backward"],
        # Other names end, or begin, with these, and come earlier in the file.
        "names in other names": ["cos", "asin", "conj"],
        "formulas together": ["convolution", "native_batch_norm", "where.self", "gather", "unbind.int"],
        # Formulas for results that have names of their own, and entries that are no formulas.
        "formulas for results": ["topk", "aminmax", "linalg_cholesky_ex", "linalg_qr", "any"],
        # In the last one's blocks there is no `Default`.
        "blocks of formulas": [
            *[name for name, entry in formulas().items() if "dispatch" in entry and name in entries()][:5],
            "_test_autograd_multiple_dispatch.ntonly",
        ],
        "not there": ["no_such_operator", "relu.Tensor", "add"],
    }
    cases = [
        Case(name, {"operators": [one for one in operators if name == "not there" or one in entries()]})
        for name, operators in fixed.items()
    ]
    names = sorted(entries())
    derived = sorted(set(formulas()) & set(names))
    drawn = [random.sample(names, 8) + random.sample(derived, 4) for _ in range(3)]
    cases += [Case(f"random {number}", {"operators": operators}) for number, operators in enumerate(drawn)]
    return [*cases, Case("another kernel meanwhile", changing(random))]


def changing(random: Random) -> dict[str, Any]:
    """Operators, of which all but one have another kernel for a while.

    None of them has a kernel for `CPU` itself: the dispatcher would warn that it is replaced.
    """
    composite = [name for name in sorted(entries()) if served(name)[1] in ("math kernel", "default backend kernel")]
    chosen = random.sample(composite, 3)
    return {
        "operators": chosen,
        # What stands in the first brackets of such a line is a folder.
        "kernels": {name: f"/some/[where]/kernels_{random.randrange(10**6)}.py" for name in chosen[:2]},
    }


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """The misconception behind each kind of fact that is wrong, once each."""
    said: list[str] = []
    operators, kernels = case.parameters["operators"], case.parameters.get("kernels", {})
    earlier: dict[str, Any] = {}
    for moment in MOMENTS if kernels else MOMENTS[:1]:
        with ExitStack() as stack:
            if moment == "meanwhile":
                stack.enter_context(registered(kernels))
            pairs = list(zip(operators, evidence.values[moment], strict=True))
            told = [one for operator, found in pairs for one in _differences(operator, found, said)]
            now = {operator: served(operator) for operator in operators if operator in entries()}
        if any(_as_before(found, earlier.get(operator), now.get(operator)) for operator, found in pairs):
            told = [("table of before", figures) for _, figures in told]
        for name, figures in told:
            if name not in said:
                said.append(name)
                yield name, figures
        earlier = now


def _as_before(found: dict[str, Any] | None, earlier: Any, now: Any) -> bool:
    """Whether file and reason are those that another kernel had."""
    return earlier is not None and earlier != now and found is not None and _served(found) == earlier


def _served(found: dict[str, Any]) -> tuple[Any, Any]:
    return found.get("file"), found.get("why")


def _differences(operator: str, found: dict[str, Any] | None, said: list[str]) -> Iterator[tuple[str, str]]:
    if found is None:
        yield "no dictionary", f"({operator})"
        return
    try:
        right = facts_of(operator)
    except Missing:
        if "missing" not in found or operator not in found["missing"]:
            yield "not refused", f"({operator}: {'the message does not name it' if 'missing' in found else 'no error'})"
        return
    if "missing" in found:
        yield "refused", f"({operator}: {found['missing']})"
        return
    if found["has"] != list(FACTS):
        yield "no dictionary", f"({operator}: there are only {', '.join(found['has']) or 'none'})"
        return
    for fact in FACTS:
        if found[fact] != _cut(right[fact]):
            told = f"({operator}: found {_short(found[fact])}, wanted {_short(right[fact])})"
            yield _named(operator, fact, found, said), told
            return


def _named(operator: str, fact: str, found: dict[str, Any], said: list[str]) -> str:
    """The mistake that leads to what was found: one that was made before, or that explains all facts at once."""
    right = facts_of(operator)
    made = {flaw: facts_of(operator, flaw) for flaw in sorted(FLAWS, key=lambda flaw: flaw not in said)}
    for flaw, facts in made.items():
        if facts != right and all(_cut(facts[one]) == found[one] for one in FACTS):
            return flaw
    for flaw, facts in made.items():
        if facts[fact] != right[fact] and _cut(facts[fact]) == found[fact]:
            return flaw
    return OF_A_FACT[fact]


def _cut(fact: Any) -> Any:
    """A fact as the probe hands it over."""
    if isinstance(fact, dict):
        return {name: text[:LONGEST] for name, text in fact.items()}
    return fact[:LONGEST] if isinstance(fact, str) else fact


def _short(fact: Any) -> str:
    told = str(fact)
    return told if len(told) <= LONGEST_TOLD else told[: LONGEST_TOLD - 1] + "…"
