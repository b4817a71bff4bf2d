# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown] nbgrader={"grade": false, "grade_id": "ex16-introduction", "locked": true, "schema_version": 3, "solution": false, "task": false}
# # Exercise 16: memory and profiling
#
# Five tasks and two questions, a bit under three hours. You write the allocator that stands between PyTorch and a GPU, read
# what it reports, predict the peak of a training step from its graph, find out who keeps memory alive, and read traces
# until you can say what holds a program back.
#
# You need no GPU. Each task has a cell for your code and a check below it that answers at once. The check tries visible
# cases; `submit` at the end also tries hidden ones.

# %% nbgrader={"grade": false, "grade_id": "ex16-setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
from autograder import check, submit

# %% [markdown] nbgrader={"grade": false, "grade_id": "caching_allocator-rules", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 1. A caching allocator
#
# When PyTorch says *20 MiB are reserved but unallocated*, it's telling you about its **caching allocator**. Build one, and you
# can read that line. It gets **segments** from the device, cuts them into **blocks**, and hands blocks out:
#
# | | the rule |
# | --- | --- |
# | size | round the request up to a multiple of 512 bytes; from here on, this counts |
# | pool | up to 1 MiB: *small*, above: *large*; one of each for every stream, and nothing moves between pools |
# | block | of the pool's free blocks that are large enough the smallest; among equals, the lowest address |
# | no such block | get a segment from the device: 2 MiB (small); 20 MiB (large, below 10 MiB); from 10 MiB on, the size rounded up to a multiple of 2 MiB |
# | rest | split it off as a free block: from 512 bytes (small), or if it's more than 1 MiB (large) |
# | free | the block unites with free neighbours in its segment; the device gets nothing back |

# %% [markdown] nbgrader={"grade": false, "grade_id": "caching_allocator-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# *40 minutes, hard.* Write `CachingAllocator`. It's made with a `device`: `device.malloc(size)` returns the address of a new
# segment, `device.free(address)` takes one back. Addresses are whole numbers.
#
# | method | what it does |
# | --- | --- |
# | `malloc(size, stream)` | returns the address of a block, by the rules above |
# | `free(address)` | takes the block back; an address at which no block in use begins must be refused with a `ValueError` |
# | `empty_cache()` | gives every segment that is entirely free back to the device |
# | `snapshot()` | a list with a dictionary for each segment: `address`, `total_size`, `stream`, `segment_type` (`"small"` or `"large"`), and `blocks`, by address: dictionaries with `size` and `state`, which is `"active_allocated"` or `"inactive"` |
#
# If the device raises `MemoryError`, empty the cache, of all pools, and ask once more. If it raises again, so do you.
#
# For example, the first `malloc(1, 0)` takes a segment of 2 MiB, and leaves blocks of 512 and 2,096,640 bytes.
#
# <details><summary>Hint 1: a question</summary>Two free blocks lie side by side in memory. What tells you whether they may unite?</details>
# <details><summary>Hint 2: the idea</summary>Keep segments as the dictionaries that <code>snapshot</code> returns, and give each block its address, too. A new segment is one free block; then the same code splits it.</details>
# <details><summary>Hint 3: the shape</summary><code>malloc</code>: round; choose the pool; <code>min</code> of the free blocks that fit, by <code>(size, address)</code>; else a new segment, in <code>try</code> and <code>except MemoryError</code>; split; mark. <code>free</code>: find, mark, then build the segment's list of blocks anew, adding each free block to the one before it if that's free.</details>


# %% nbgrader={"grade": false, "grade_id": "caching_allocator-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
MIB = 2**20


class CachingAllocator:
    """Hands out memory of a device, and keeps what comes back."""

    def __init__(self, device):
        self.device = device
        self.segments = []

    def malloc(self, size: int, stream: int = 0) -> int:
        """The address of a block with at least `size` bytes."""
        ### BEGIN SOLUTION
        size = -(-size // 512) * 512
        kind = "small" if size <= MIB else "large"
        free = [
            (block["size"], block["address"], segment, block)
            for segment in self.segments
            if (segment["stream"], segment["segment_type"]) == (stream, kind)
            for block in segment["blocks"]
            if block["state"] == "inactive" and block["size"] >= size
        ]
        if free:
            *_, segment, block = min(free, key=lambda one: one[:2])
        else:
            segment = self.new_segment(size, stream, kind)
            [block] = segment["blocks"]
        rest = block["size"] - size
        if rest >= 512 if kind == "small" else rest > MIB:
            block["size"] = size
            new = {"address": block["address"] + size, "size": rest, "state": "inactive"}
            segment["blocks"].insert(segment["blocks"].index(block) + 1, new)
        block["state"] = "active_allocated"
        return block["address"]
        ### END SOLUTION

    def free(self, address: int) -> None:
        """Take a block back."""
        ### BEGIN SOLUTION
        for segment in self.segments:
            for block in segment["blocks"]:
                if block["address"] == address and block["state"] == "active_allocated":
                    block["state"] = "inactive"
                    self.unite(segment)
                    return
        raise ValueError(f"{address} is not in use")
        ### END SOLUTION

    def empty_cache(self) -> None:
        """Give back every segment that is entirely free."""
        ### BEGIN SOLUTION
        for segment in list(self.segments):
            if all(block["state"] == "inactive" for block in segment["blocks"]):
                self.device.free(segment["address"])
                self.segments.remove(segment)
        ### END SOLUTION

    def snapshot(self) -> list[dict]:
        """What the allocator holds."""
        ### BEGIN SOLUTION
        return self.segments
        ### END SOLUTION

    # Further methods of your own go here.
    def new_segment(self, size: int, stream: int, kind: str) -> dict:
        """A segment from the device: one free block."""
        ### BEGIN SOLUTION
        total = 2 * MIB if kind == "small" else 20 * MIB if size < 10 * MIB else -(-size // (2 * MIB)) * 2 * MIB
        try:
            address = self.device.malloc(total)
        except MemoryError:
            self.empty_cache()
            address = self.device.malloc(total)
        block = {"address": address, "size": total, "state": "inactive"}
        segment = {
            "address": address,
            "total_size": total,
            "stream": stream,
            "segment_type": kind,
            "blocks": [block],
        }
        self.segments.append(segment)
        return segment
        ### END SOLUTION

    def unite(self, segment: dict) -> None:
        """Make one free block of those that lie side by side."""
        ### BEGIN SOLUTION
        blocks = []
        for block in segment["blocks"]:
            if blocks and block["state"] == blocks[-1]["state"] == "inactive":
                blocks[-1]["size"] += block["size"]
            else:
                blocks.append(block)
        segment["blocks"] = blocks
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "caching_allocator", "locked": true, "points": 30, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.u6.caching_allocator(CachingAllocator)

# %% [markdown] nbgrader={"grade": false, "grade_id": "read_snapshot-rules", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 2. Reserved, and yet out of memory
#
# *CUDA out of memory. Tried to allocate 12 MiB … 900 MiB is reserved by PyTorch but unallocated.* How can that be? The
# answer lies in a snapshot: the list that `torch.cuda.memory_snapshot()` returns. It has the form that you know from task
# 1, with three additions. Each block says its `address` and its `requested_size`, the bytes that the program asked for (0 if
# it's free). And a block can be `"active_pending_free"`: freed by the program, but another stream has yet to be done with it.

# %% [markdown] nbgrader={"grade": false, "grade_id": "read_snapshot-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# *15 minutes, easy.* Write two functions. `report(snapshot)` returns a dictionary of bytes:
#
# | name | what it counts |
# | --- | --- |
# | `"reserved"` | all segments |
# | `"allocated"` | blocks that are allocated, at their size |
# | `"rounding"` | what these blocks have beyond what was requested |
# | `"waiting"` | blocks that are pending |
# | `"releasable"` | segments in which all is free: `empty_cache` gives them back |
# | `"stuck"` | free blocks in other segments: nobody gets them back |
#
# `serves(snapshot, stream, size)` says whether a request of `size` bytes on that stream gets a block without asking the
# device, by the rules of task 1.
#
# For example, with 12 MiB free in three blocks of 4 MiB, `serves` says no to 12 MiB.
#
# <details><summary>Hint 1: a question</summary>Which of the six figures add up to <code>"reserved"</code>?</details>
# <details><summary>Hint 2: the idea</summary>Go through the segments, and in each add up its free blocks. Only when you've seen all of a segment do you know where its free bytes belong.</details>
# <details><summary>Hint 3: the shape</summary><code>figures["releasable" if free == segment["total_size"] else "stuck"] += free</code>. And <code>serves</code> chooses the pool, and is one <code>any(…)</code>.</details>


# %% nbgrader={"grade": false, "grade_id": "read_snapshot-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def report(snapshot: list[dict]) -> dict[str, int]:
    """Where the bytes of a snapshot are."""
    ### BEGIN SOLUTION
    figures = dict.fromkeys(("reserved", "allocated", "rounding", "waiting", "releasable", "stuck"), 0)
    for segment in snapshot:
        figures["reserved"] += segment["total_size"]
        free = 0
        for block in segment["blocks"]:
            if block["state"] == "active_allocated":
                figures["allocated"] += block["size"]
                figures["rounding"] += block["size"] - block["requested_size"]
            elif block["state"] == "active_pending_free":
                figures["waiting"] += block["size"]
            else:
                free += block["size"]
        figures["releasable" if free == segment["total_size"] else "stuck"] += free
    return figures
    ### END SOLUTION


def serves(snapshot: list[dict], stream: int, size: int) -> bool:
    """Whether a request gets a block from the cache."""
    ### BEGIN SOLUTION
    kind = "small" if size <= 2**20 else "large"
    return any(
        block["state"] == "inactive" and block["size"] >= size
        for segment in snapshot
        if segment["stream"] == stream and segment["segment_type"] == kind
        for block in segment["blocks"]
    )
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "read_snapshot", "locked": true, "points": 15, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.u6.read_snapshot(report, serves)

# %% [markdown] nbgrader={"grade": false, "grade_id": "peak_memory-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 3. The peak of a training step
#
# *30 minutes, medium.* Will it fit? You can know before you run it. Here's a whole training step as a graph: forward,
# backward and update. Write `peak(graph)`: the most bytes alive at a time, and the name of a node at which that is.
#
# - Every node has what it makes in `node.meta["val"]`: a tensor without data, a tuple of them, or nothing. Tensors that share
#   memory have the same `untyped_storage()._cdata`, and a storage knows its `nbytes()`.
# - Inputs (`placeholder`) are alive all the time. Everything else is alive from the node that makes it to the last node that
#   uses any tensor on its storage. While a node runs, what it reads and what it makes are both alive.
#
# The check also shows what the profiler measures. For example, *one layer* needs 36,100 bytes, at `pow_2`.
#
# <details><summary>Hint 1: a question</summary>The graph has <code>t</code>, a view of a weight. How many bytes does it add? And if the weight's last use was long ago, may its memory go?</details>
# <details><summary>Hint 2: the idea</summary>Follow storages, not nodes. For each note its size, the place of the node that makes it, and the place of the last node that uses any node whose value lies on it.</details>
# <details><summary>Hint 3: the shape</summary>Number the nodes. One loop fills three dictionaries by <code>_cdata</code>, with <code>tree_leaves(node.meta.get("val"))</code> and <code>max</code> over <code>node.users</code>. A second one adds up, at each node, what is alive there.</details>


# %% nbgrader={"grade": false, "grade_id": "peak_memory-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
import torch
from torch.utils._pytree import tree_leaves


def peak(graph: torch.fx.Graph) -> tuple[int, str]:
    """Most bytes that are alive at a time, and the name of a node at which they are."""
    ### BEGIN SOLUTION
    nodes = list(graph.nodes)
    place = {node: number for number, node in enumerate(nodes)}
    sizes, first, last = {}, {}, {}
    for node in nodes:
        for tensor in tree_leaves(node.meta.get("val")):
            if not isinstance(tensor, torch.Tensor):
                continue
            storage = tensor.untyped_storage()
            key = storage._cdata
            sizes[key] = storage.nbytes()
            first.setdefault(key, place[node])
            end = len(nodes) if node.op == "placeholder" else max([place[node], *(place[one] for one in node.users)])
            last[key] = max(last.get(key, 0), end)
            if node.op == "placeholder":
                first[key] = 0
    alive = [sum(sizes[key] for key in sizes if first[key] <= now <= last[key]) for now in range(len(nodes))]
    return max(alive), nodes[alive.index(max(alive))].name
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "peak_memory", "locked": true, "points": 20, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.u6.peak_memory(peak)

# %% [markdown] nbgrader={"grade": false, "grade_id": "find_leak-rules", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 4. Find the leak
#
# Memory grows with every step. Who holds on to what? Take two snapshots of the objects, one step apart, and compare.
#
# A snapshot is a dictionary with `"variables"`, a list of names of objects, and `"objects"`: for each name a dictionary with its
# `"bytes"` and with the names that it `"refers_to"`, which may name one twice.
#
# - An object is **in use** if a variable leads to it, directly or through other objects. Anything else that's there is **garbage**:
#   a cycle, or something that hangs on one, and waits for the collector.
# - **Reference counting** frees an object at once when the last reference to it goes, from whatever variable or object
#   (garbage, too). It lets go of what it refers to in turn: a chain of thousands of objects goes with its first.

# %% [markdown] nbgrader={"grade": false, "grade_id": "find_leak-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# *25 minutes, medium.* Write `find_leak(before, after)`. It returns a dictionary:
#
# - `"garbage"`: the bytes of all garbage in `after`;
# - `"holders"`: a dictionary. An object is a holder if it's in use in both snapshots and has more references in `after` than in
#   `before`. Its value: how many bytes reference counting would free at once, if it let go of the objects it refers to that
#   aren't in `before`.
#
# For example, a list that gets a new loss at each step is a holder. What it would free is the loss, its graph and the
# activations. But it's 0 if a variable still holds that loss.
#
# <details><summary>Hint 1: a question</summary>A trainer keeps its latest output in <code>self.last</code>. Every snapshot has a new one there. Why is that no leak, and which number tells you?</details>
# <details><summary>Hint 2: the idea</summary>Two walks. One follows references from the variables and finds what's in use. The other counts references down: begin with what the holder lets go, and whenever a count reaches 0, let go of what that object refers to.</details>
# <details><summary>Hint 3: the shape</summary>A <code>Counter</code> over all variables and all <code>"refers_to"</code>, and a list <code>waiting</code> of names to take one reference from. <code>while waiting:</code> count down; at 0 add its bytes and extend <code>waiting</code>. Start with a fresh copy of the counter for each holder.</details>


# %% nbgrader={"grade": false, "grade_id": "find_leak-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
from collections import Counter


def in_use(snapshot: dict) -> set[str]:
    """Names of the objects that some variable leads to."""
    ### BEGIN SOLUTION
    found, waiting = set(), list(snapshot["variables"])
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += snapshot["objects"][name]["refers_to"]
    return found
    ### END SOLUTION


def find_leak(before: dict, after: dict) -> dict:
    """Bytes of garbage, and for each object that grows the bytes that it alone keeps."""
    ### BEGIN SOLUTION
    objects, used, used_before = after["objects"], in_use(after), in_use(before)
    counts = Counter(after["variables"])
    for one in objects.values():
        counts.update(one["refers_to"])
    holders = {}
    for name in used & used_before:
        references = objects[name]["refers_to"]
        if len(references) <= len(before["objects"][name]["refers_to"]):
            continue
        waiting = [other for other in references if other not in before["objects"]]
        left, freed = counts.copy(), 0
        while waiting:
            other = waiting.pop()
            left[other] -= 1
            if left[other] == 0:
                freed += objects[other]["bytes"]
                waiting += objects[other]["refers_to"]
        holders[name] = freed
    garbage = sum(one["bytes"] for name, one in objects.items() if name not in used)
    return {"garbage": garbage, "holders": holders}
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "find_leak", "locked": true, "points": 15, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.u6.find_leak(find_leak)

# %% [markdown] nbgrader={"grade": false, "grade_id": "read_trace-rules", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 5. Name the bottleneck
#
# A GPU at 40 % isn't slow: it's waiting. For what? A trace knows. It's a list of events, dictionaries with `name`, `cat`, `ts` (start)
# and `dur`, both in microseconds, and `pid` and `tid`, which together name a thread.
#
# | `cat` | what it is |
# | --- | --- |
# | `kernel`, `gpu_memcpy`, `gpu_memset` | an activity of the device; `tid` is its stream |
# | `cuda_runtime` | a call of the host, such as a launch. It has the same `args["correlation"]` as what it launches |
# | `user_annotation` | a range: what `record_function` makes |
# | `cpu_op` | an operator on the host |
#
# The traces here come from a simulated device, so that you know what's true. A real one has the same form.

# %% [markdown] nbgrader={"grade": false, "grade_id": "read_trace-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# *30 minutes, medium.* Write `diagnose(events)`. It returns microseconds by name, and as `"bottleneck"` the largest of the first
# five:
#
# - `"device"`: at least one activity runs. A **gap** is the time between two such stretches.
# - An activity ends the gap (of several, the one launched first). If its launch began before the gap did, all of it is
#   `"between"`. Otherwise the host was late:
#   - `"data"`: the part of the gap in which the thread of that launch is inside a range named `data`;
#   - the rest is `"synchronisation"` if a call in `SYNCHRONISES` on that thread returned between the gap's start and the launch's
#     start, both included. If not, it's `"launches"`.
# - `"hidden"`: a copy (`gpu_memcpy`) and a kernel run at the same time.
#
# Events come in any order. If no activity is there, all are 0, and any name will do.
#
# *Slow loading* has 1,390 for `"data"`.
#
# <details><summary>Hint 1: a question</summary>A hundred tiny kernels, or one <code>loss.item()</code> per step: both leave gaps. Where does the launch after such a gap stand, and what stands right before it?</details>
# <details><summary>Hint 2: the idea</summary>Turn events into pairs (start, end) and unite those that touch or overlap. What lies between two united pairs is a gap. The same function serves ranges, copies and kernels.</details>
# <details><summary>Hint 3: the shape</summary><code>unite(spans)</code> and <code>common(one, other)</code>, then <code>for (_, start), (end, _) in pairwise(busy)</code>: find the launch by its correlation, then <code>if launch["ts"] &lt; start</code>, and so on.</details>


# %% nbgrader={"grade": false, "grade_id": "read_trace-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
from itertools import pairwise

ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
SYNCHRONISES = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize")


def unite(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same time without overlaps, in order."""
    ### BEGIN SOLUTION
    found = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found
    ### END SOLUTION


def common(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> int:
    """How long both last."""
    ### BEGIN SOLUTION
    return sum(max(0, min(a[1], b[1]) - max(a[0], b[0])) for a in one for b in other)
    ### END SOLUTION


def diagnose(events: list[dict]) -> dict:
    """Where the time of the device goes."""

    ### BEGIN SOLUTION
    def spans(chosen):
        return unite([(one["ts"], one["ts"] + one["dur"]) for one in chosen])

    device = [one for one in events if one["cat"] in ON_DEVICE]
    launches = {one["args"]["correlation"]: one for one in events if one["cat"] == "cuda_runtime"}
    figures = dict.fromkeys(("device", "data", "synchronisation", "launches", "between"), 0)
    busy = spans(device)
    figures["device"] = sum(end - start for start, end in busy)
    for (_, start), (end, _) in pairwise(busy):
        ending = [launches[one["args"]["correlation"]] for one in device if one["ts"] == end]
        launch = min(ending, key=lambda one: one["ts"])
        if launch["ts"] < start:
            figures["between"] += end - start
            continue
        mine = [one for one in events if (one["pid"], one["tid"]) == (launch["pid"], launch["tid"])]
        ranges = [one for one in mine if one["cat"] == "user_annotation" and one["name"] == "data"]
        data = common([(start, end)], spans(ranges))
        returned = [one["ts"] + one["dur"] for one in mine if one["name"] in SYNCHRONISES]
        waited = any(start <= time <= launch["ts"] for time in returned)
        figures["data"] += data
        figures["synchronisation" if waited else "launches"] += end - start - data
    bottleneck = max(figures, key=figures.get)
    copies = spans([one for one in device if one["cat"] == "gpu_memcpy"])
    kernels = spans([one for one in device if one["cat"] == "kernel"])
    return {**figures, "hidden": common(copies, kernels), "bottleneck": bottleneck}
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "read_trace", "locked": true, "points": 20, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.u6.read_trace(diagnose)

# %% [markdown] nbgrader={"grade": false, "grade_id": "explain_oom-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Question 1. Out of memory after an hour
#
# *10 minutes, medium.* A colleague's training on a GPU runs for an hour and then raises *CUDA out of memory*. The message says that
# 9 GiB are allocated and 14 GiB reserved. Batches have different lengths. Explain in at most 150 words what the two
# figures tell you, which two causes you'd tell apart, and what you'd record to do so. Then name one remedy for each cause, and
# say why calling `empty_cache()` in every step is none.

# %% [markdown] nbgrader={"grade": true, "grade_id": "explain_oom", "locked": false, "points": 10, "schema_version": 3, "solution": true, "task": false} fxopt={"rubric": {"allocated against reserved: fragmentation, and what would point to a leak": 4, "what to record: a snapshot or its history, allocated bytes step by step": 3, "a remedy for each, and why empty_cache is none: it synchronises, and split segments stay": 3}}
# *Your answer goes here.*

# %% [markdown] nbgrader={"grade": false, "grade_id": "explain_trace-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Question 2. What would mixed precision change?
#
# *10 minutes, medium.* In a trace the device is busy for 95 % of the time, and its kernels are matrix products. Somebody turns on
# mixed precision, and the step becomes less faster than they hoped. Say in at most 150 words how the trace looks now, which of
# the five causes of task 5 may have grown and why, and what else appears among the operators. Then record a step of a small
# network on your own CPU, with and without `torch.autocast("cpu", dtype=torch.bfloat16)`, and give two figures from the profile
# that support what you say.

# %% [markdown] nbgrader={"grade": true, "grade_id": "explain_trace", "locked": false, "points": 10, "schema_version": 3, "solution": true, "task": false} fxopt={"rubric": {"shorter kernels, so that launches or data show as gaps": 4, "casts appear, and which operators stay in single precision": 3, "two figures from a profile of one's own": 3}}
# *Your answer goes here.*

# %% [markdown] nbgrader={"grade": false, "grade_id": "ex16-submit-text", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Submit
#
# Save the notebook (Ctrl+S or ⌘S), then take the `#` away and run this cell. It says how many points you have and where the
# feedback page lies.

# %%
# submit("ex_16")
