"""Calls everything that a learner's graph may call with odd and hostile arguments, and reports what kills the process.

`python tests/attacks/operator_fuzzer.py [--calls N] [--seed S] [--only PATTERN] [--json PATH]` tries every function,
method and operator of the allow-list (`autograder.exchange.graph_form.targets`), each in a process of its own, with
`--also TARGET` one that was taken off it. Its exit status is 1 where a process died of something that is not in `KEPT`.

Arguments come from two sources: PyTorch's own samples for its operators (`torch.testing`), in which one or two values
are spoilt, and the operator's schema. Spoilt means: huge, negative, zero, out of range, empty, expanded, of another
dtype, without data (`meta`), not a number. Tensors lie against a page that no one may touch, so that a kernel that
reads or writes past them dies of it instead of passing unnoticed.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import mmap
import os
import random
import re
import resource
import signal
import struct
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from autograder.exchange.graph_form import GraphFormatError, targets
from autograder.exchange.graph_form.unchecked import KEPT

CALL_SECONDS = 1.0
"""How long one call may take before its process is given up: slow is no crash."""

RESTARTS = 3
"""How often a target goes on after a call that took too long, ended the process tidily, or asked for all memory."""

MEMORY_BYTES = 3 << 30
"""How much address space a process may take beyond what it began with."""

DRAWS = 50
"""How many calls draw their arguments from one stream: so many draws are repeated to tell what a call was."""

DEADLY = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT, signal.SIGTRAP}

INTEGERS = (
    0,
    1,
    -1,
    2,
    3,
    4,
    -2,
    5,
    7,
    16,
    100,
    -100,
    2**15,
    2**31 - 1,
    2**31,
    -(2**31),
    2**40,
    2**62,
    2**63 - 1,
    -(2**63),
)
FLOATS = (0.0, 1.0, -1.0, 0.5, 2.0, 1e-30, 1e30, -1e30, float("inf"), float("-inf"), float("nan"))
SHAPES = ((), (1,), (3,), (2, 3), (3, 3), (2, 3, 4), (2, 2, 4, 4), (1, 2, 3, 4, 4), (0,), (2, 0, 3), (1, 1, 1, 1))
DTYPES = (torch.float32, torch.float32, torch.int64, torch.int64, torch.float64, torch.int32, torch.bool, torch.uint8,
          torch.complex64, torch.bfloat16, torch.float16, torch.int8)  # fmt: skip
WORDS = ("mean", "sum", "none", "max", "nearest", "bilinear", "reflect", "constant", "linear", "tanh", "ij", "r",
         "complete", "reduced", "lower", "left", "floor", "trunc", "prod", "amax", "amin", "fro", "nuc", "",
         "x")  # fmt: skip
INDEX_NAMES = re.compile(r"ind|offset|target|length|segment|batch_sizes|repeats|dim|pivot|bins|ilens|mask")


@dataclass(frozen=True)
class Crash:
    """One call that killed its process.

    Attributes:
        target: as a document names it; methods begin with a dot.
        signal: the name of the signal.
        arguments: the call, described.
        said: the last words on standard error.
    """

    target: str
    signal: str
    arguments: str
    said: str


def base_name(target: str) -> str:
    """The name that all forms of an operator share: `add` of `torch.ops.aten.add.Tensor`, `torch.add` and `.add`."""
    parts = target.split(".")
    return parts[3] if parts[:2] == ["torch", "ops"] else parts[-1]


def allowed_targets() -> list[str]:
    """Everything that a graph may call, but what only switches the modes of a process."""
    names = [name for name in targets.functions() if not name.startswith(("torch._C._functorch", "torch._functorch"))]
    names += [f".{name}" for name in targets.methods()]
    for name in targets.operators():
        namespace, _, rest = name.partition("::")
        operation, _, overload = rest.partition(".")
        if namespace != "prim":
            names.append(f"torch.ops.{namespace}.{operation}.{overload or 'default'}")
    return sorted(names)


def callable_of(target: str) -> Callable[..., Any]:
    """What a target stands for."""
    if target[0] == ".":
        method: Callable[..., Any] = getattr(torch.Tensor, target[1:])
        return method
    if target.startswith("torch.ops."):
        _, _, namespace, operation, overload = target.split(".")
        packet = getattr(getattr(torch.ops, namespace), operation)
        found: Callable[..., Any] = getattr(packet, overload)
        return found
    return targets.functions()[target]


@cache
def _samples() -> dict[str, list[Any]]:
    """PyTorch's descriptions of its operators, by the names under which they are called."""
    from torch.testing._internal.common_methods_invocations import op_db

    found: dict[str, list[Any]] = {}
    for info in op_db:
        names = {
            info.name.rpartition(".")[2],
            info.aten_name,
            *(alias.name.rpartition(".")[2] for alias in info.aliases),
        }
        for name in names | {f"{name}_" for name in names}:
            found.setdefault(name, []).append(info)
    return found


@cache
def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def against_a_page(tensor: torch.Tensor, after: bool) -> torch.Tensor:
    """The same values in memory that ends (or begins) where a page begins that nobody may touch."""
    size = tensor.numel() * tensor.element_size()
    if not 0 < size <= 1 << 16 or tensor.is_meta or not tensor.is_contiguous():
        return tensor
    page = mmap.PAGESIZE
    inner = -(-size // page) * page
    region = mmap.mmap(-1, inner + 2 * page, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    start = ctypes.addressof(ctypes.c_char.from_buffer(region))
    for place in (0, page + inner):
        _libc().mprotect(ctypes.c_void_p(start + place), ctypes.c_size_t(page), 0)
    begin = page + (inner - size if after else 0)
    guarded = torch.frombuffer(region, dtype=tensor.dtype, count=tensor.numel(), offset=begin).view(tensor.shape)
    return guarded.copy_(tensor)


class Arguments:
    """Draws arguments for one target; the same seed draws the same ones."""

    def __init__(self, target: str, seed: str) -> None:
        self._target = target
        self._random = random.Random(seed)
        self._generator = torch.Generator().manual_seed(self._random.getrandbits(60))
        self._bases = self._sampled()
        self._schemas = self._known_schemas()

    def _sampled(self) -> list[tuple[list[Any], dict[str, Any]]]:
        bases = []
        for info in _samples().get(base_name(self._target), [])[:3]:
            for dtype in (torch.float32, torch.int64):
                try:
                    for number, sample in enumerate(info.sample_inputs("cpu", dtype, requires_grad=False)):
                        if number >= 12:
                            break
                        bases.append(([sample.input, *sample.args], dict(sample.kwargs)))
                except Exception:  # there is no sample of this dtype
                    continue
        return bases

    def _known_schemas(self) -> list[Any]:
        name = base_name(self._target)
        if self._target.startswith("torch.ops."):
            return [callable_of(self._target)._schema]  # type: ignore[attr-defined]
        return list(torch._C._jit_get_schemas_for_operator(f"aten::{name}"))

    def draw(self) -> tuple[list[Any], dict[str, Any]]:
        """Positional and keyword arguments of one call."""
        if self._bases and self._random.random() < 0.6:
            args, kwargs = self._random.choice(self._bases)
            leaves, structure = tree_flatten((args, kwargs))
            leaves = [leaf.clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
            for _ in range(self._random.choice((0, 1, 1, 1, 2, 3))):
                place = self._random.randrange(len(leaves))
                leaves[place] = self._spoilt(leaves[place])
            args, kwargs = tree_unflatten(leaves, structure)
        elif self._schemas:
            args, kwargs = self._by_schema(self._random.choice(self._schemas))
        else:
            args, kwargs = [self._anything() for _ in range(self._random.randint(1, 4))], {}
        leaves, structure = tree_flatten((args, kwargs))
        if self._random.random() < 0.7:
            after = self._random.random() < 0.7
            leaves = [against_a_page(leaf, after) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        drawn: tuple[list[Any], dict[str, Any]] = tree_unflatten(leaves, structure)
        return drawn

    def _integer(self) -> int:
        return self._random.choice(INTEGERS) if self._random.random() < 0.4 else self._random.randint(0, 4)

    def _tensor(self, shape: tuple[int, ...] | None = None, dtype: torch.dtype | None = None) -> torch.Tensor:
        shape = self._random.choice(SHAPES) if shape is None else shape
        dtype = self._random.choice(DTYPES) if dtype is None else dtype
        if self._random.random() < 0.03:
            return torch.empty(shape, dtype=dtype, device="meta")
        if dtype.is_floating_point or dtype.is_complex:
            made = torch.randn(shape, generator=self._generator).to(dtype)
        else:
            made = torch.randint(0, 4, shape, generator=self._generator).to(dtype)
        if self._random.random() < 0.3:
            made = self._spoilt_tensor(made)
        return made

    def _spoilt_tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        way = self._random.randrange(8)
        if tensor.is_meta or not tensor.numel():
            way = 3
        if way in (0, 1):
            value = self._random.choice(FLOATS if tensor.is_floating_point() else INTEGERS)
            flat = tensor.contiguous().view(-1).clone()
            number = self._random.choice((1, flat.numel()))
            for place in self._random.sample(range(flat.numel()), min(number, flat.numel())):
                try:
                    flat[place] = value
                except (RuntimeError, OverflowError):
                    flat[place] = -1 if flat.dtype.is_signed else 100
            return flat.view(tensor.shape)
        if way == 2 and tensor.dim():
            return tensor.narrow(self._random.randrange(tensor.dim()), 0, 0)
        if way == 3:
            return self._tensor()
        if way == 4:
            return tensor.flatten()[:1].expand(tuple(self._random.choice((1, 3, 1000)) for _ in range(tensor.dim())))
        if way == 5:
            return tensor.to(self._random.choice(DTYPES))
        if way == 6:
            return torch.empty(tensor.shape, dtype=tensor.dtype, device="meta")
        return tensor.unsqueeze(0) if self._random.random() < 0.5 or not tensor.dim() else tensor[..., 0]

    def _spoilt(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self._spoilt_tensor(value)
        if isinstance(value, bool):
            return not value
        if isinstance(value, int):
            return self._random.choice(INTEGERS)
        if isinstance(value, float):
            return self._random.choice(FLOATS)
        if isinstance(value, torch.dtype):
            return self._random.choice(DTYPES)
        if isinstance(value, str):
            return self._random.choice(WORDS)
        return self._anything()

    def _anything(self) -> Any:
        kind = self._random.randrange(8)
        if kind < 4:
            return self._tensor()
        if kind == 4:
            return [self._integer() for _ in range(self._random.randrange(5))]
        if kind == 5:
            return [self._tensor() for _ in range(self._random.randrange(4))]
        return self._random.choice(
            (self._integer(), self._random.choice(FLOATS), None, True, False, self._random.choice(WORDS))
        )

    def _by_schema(self, schema: Any) -> tuple[list[Any], dict[str, Any]]:
        # Mostly tensors that could fit together, or no call would come past the first check.
        shape = self._random.choice(SHAPES) if self._random.random() < 0.7 else None
        dtype = self._random.choice((torch.float32, torch.float32, torch.float64, torch.int64))
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for argument in schema.arguments:
            if argument.has_default_value() and self._random.random() < 0.5:
                if argument.kwarg_only:
                    continue
                value = argument.default_value
            else:
                value = self._of_type(str(argument.real_type), argument.name, shape, dtype)
            if argument.kwarg_only:
                kwargs[argument.name] = value
            else:
                args.append(value)
        return args, kwargs

    def _of_type(self, kind: str, name: str, shape: tuple[int, ...] | None, dtype: torch.dtype) -> Any:
        if kind.startswith("Optional["):
            return None if self._random.random() < 0.3 else self._of_type(kind[9:-1], name, shape, dtype)
        if kind.startswith("List["):
            count = self._random.choice((0, 1, 2, 2, 3, 4))
            return [self._of_type(kind[5:-1], name, shape, dtype) for _ in range(count)]
        if kind == "Tensor":
            integral = INDEX_NAMES.search(name) is not None and self._random.random() < 0.8
            fits = self._random.random() < 0.7
            return self._tensor(shape if fits else None, torch.int64 if integral else dtype if fits else None)
        if kind in ("int", "SymInt"):
            return self._integer()
        if kind in ("float", "number", "Scalar", "complex"):
            return self._random.choice(FLOATS) if self._random.random() < 0.5 else self._integer()
        if kind == "bool":
            return self._random.random() < 0.5
        if kind == "str":
            return self._random.choice(WORDS)
        if kind in ("ScalarType",):
            return self._random.choice(DTYPES)
        if kind == "Device":
            return torch.device(self._random.choice(("cpu", "cpu", "meta")))
        if kind == "Layout":
            return torch.strided
        if kind == "MemoryFormat":
            return self._random.choice((torch.contiguous_format, torch.channels_last, torch.preserve_format))
        return None


def described(value: Any) -> str:
    """Arguments in words, short."""
    if isinstance(value, torch.Tensor):
        content = "" if value.is_meta or value.numel() > 8 else f" {value.tolist()}"
        return f"{str(value.dtype)[6:]}{list(value.shape)}{' meta' if value.is_meta else ''}{content}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(described, value))}]"
    if isinstance(value, dict):
        return ", ".join(f"{key}={described(item)}" for key, item in value.items())
    return repr(value)


def _try(target: str, seed: str, first: int, calls: int, place: mmap.mmap) -> None:
    """Make the calls from number `first` on, and say before each which it is. In a process of its own."""
    function = callable_of(target)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE if sys.platform == "linux" else 0
    if size:
        resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY_BYTES, size + MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    arguments = None
    for number in range(first, calls):
        place[:8] = struct.pack("q", number)
        if arguments is None or number % DRAWS == 0:
            arguments = Arguments(target, f"{seed}/{target}/{number // DRAWS}")
            for _ in range(number % DRAWS):
                arguments.draw()
        args, kwargs = arguments.draw()
        try:
            targets.check_strides(target[1:], tuple(args), kwargs, "")
            targets.check_call(function, tuple(args), kwargs, "")
        except GraphFormatError:  # a document with this call is refused
            continue
        signal.setitimer(signal.ITIMER_REAL, CALL_SECONDS)
        try:
            result = function(*args, **kwargs)
            for leaf in tree_flatten(result)[0]:  # whoever gets it reads it
                if isinstance(leaf, torch.Tensor) and not leaf.is_meta and 0 < leaf.numel() < 10_000:
                    leaf.detach().clone()
        except Exception:  # to refuse is right
            pass
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)


def try_target(target: str, seed: str, calls: int) -> Crash | None:
    """The first call of a target that kills its process, if one does."""
    place = mmap.mmap(-1, 8)
    first = 0
    for _ in range(RESTARTS):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.close(reading)
                os.dup2(writing, 2)
                os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
                _try(target, seed, first, calls, place)
                code = 0
            finally:
                os._exit(code)
        os.close(writing)
        said = b""
        while part := os.read(reading, 1 << 16):
            said = (said + part)[-2000:]
        os.close(reading)
        _, status = os.waitpid(child, 0)
        (number,) = struct.unpack("q", place[:8])
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) in DEADLY:
            arguments = Arguments(target, f"{seed}/{target}/{number // DRAWS}")
            for _ in range(number % DRAWS + 1):
                args, kwargs = arguments.draw()
            name = signal.Signals(os.WTERMSIG(status)).name
            text = f"{described(args)}; {described(kwargs)}"[:400]
            return Crash(target, name, text, said.decode(errors="replace").strip()[-300:])
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0:
            return None
        first = number + 1
    return None


def fuzz(names: list[str], seed: str, calls: int) -> Iterator[tuple[str, Crash | None]]:
    """Each target, and what killed its process."""
    torch.set_num_threads(1)
    _samples()
    for name in names:
        yield name, try_target(name, seed, calls)


def main() -> int:
    """The command: see the module's description."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=300, help="calls of each target")
    parser.add_argument("--seed", default=str(int(time.time())), help="the same seed makes the same calls")
    parser.add_argument("--only", default="", help="a regular expression that targets must contain")
    parser.add_argument("--also", action="append", default=[], help="a target that need not be on the list")
    parser.add_argument("--sample", type=int, help="so many targets, drawn by the seed")
    parser.add_argument("--part", default="0/1", help="i/n: the i-th of n parts of the targets")
    parser.add_argument("--json", type=Path, help="where to write what was found")
    given = parser.parse_args()
    part, parts = map(int, given.part.split("/"))
    names = [name for name in allowed_targets() if re.search(given.only, name)][part::parts]
    if given.sample is not None:
        names = random.Random(given.seed).sample(names, min(given.sample, len(names)))
    names += given.also
    crashes, kept = [], []
    started = time.monotonic()
    for number, (name, crash) in enumerate(fuzz(names, given.seed, given.calls), start=1):
        if crash is not None:
            (kept if base_name(name) in KEPT else crashes).append(crash)
            print(f"{crash.signal:8} {name}({crash.arguments})  {crash.said[-120:]!r}", flush=True)
        if number % 500 == 0:
            print(f"-- {number} of {len(names)} after {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    print(
        f"seed {given.seed}: {len(names)} targets, {given.calls} calls each, {len(crashes)} crashed, "
        f"and {len(kept)} that are kept"
    )
    if given.json:
        given.json.write_text(json.dumps([asdict(crash) for crash in crashes], indent=1))
    return bool(crashes)


if __name__ == "__main__":
    sys.exit(main())
