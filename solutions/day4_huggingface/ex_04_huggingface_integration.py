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

# %% [markdown] nbgrader={"grade": false, "grade_id": "ex04-introduction", "locked": true, "schema_version": 3, "solution": false, "task": false}
# # Exercise 4: Hugging Face models
#
# From text to a graph that you know piece by piece. Six tasks, about an hour and a half. All models are small and built from their configurations with random weights: nothing is downloaded.
#
# Write your own code: the tools of `fxopt_core` that would answer a task are out of reach while grading.

# %% nbgrader={"grade": false, "grade_id": "ex04-setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import logging
import math
import operator

import torch
import transformers
from torch import fx, nn
from torch.export import Dim, ExportedProgram, export

from autograder import check, submit
from autograder.exercises.day4.models import build_transformer, draw_text, flat_graph

aten = torch.ops.aten
torch._logging.set_logs(all=logging.CRITICAL)  # what the exporter logs, its errors say too
transformers.logging.set_verbosity_error()

# %% [markdown] nbgrader={"grade": false, "grade_id": "text_to_bert-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 1. From text to a verified exported BERT
#
# *12 minutes, easy.* Three functions, from words to a program that you can trust:
#
# 1. `encode_texts(tokenizer, texts, most)` returns a dictionary of `input_ids` and `attention_mask`, both of shape
#    (texts, tokens): filled up to the longest text, and no text longer than `most` tokens.
# 2. `export_bert(model, inputs)` returns an `ExportedProgram` that takes both by name, for every number of texts from 1 to
#    64 and every length from 2 to what the model can read (`model.config.max_position_embeddings`). The model comes as
#    training left it.
# 3. `greatest_difference(run, model, inputs)` calls `run(**inputs)` and `model(**inputs)`, each of which returns a tuple of
#    tensors, and returns the largest absolute difference of any number, as a float. This is what you would verify the
#    program with; the check tries it on programs that are off for certain.
#
# <details><summary>Hint 1: a question</summary>What does a row hold where its text is over? Who tells the model?</details>
# <details><summary>Hint 2: the idea</summary>A tokenizer is called like a function, and has <code>padding</code>, <code>truncation</code>, <code>max_length</code> and <code>return_tensors</code>. Both inputs of the program share their two dynamic dimensions.</details>
# <details><summary>Hint 3: the shape</summary><code>export(model.eval(), (), inputs, dynamic_shapes={name: {0: batch, 1: length} for name in inputs})</code>; and <code>max(… .abs().max() for … in zip(run(**inputs), model(**inputs)))</code>.</details>

# %% tags=["not-graded"] nbgrader={"grade": false, "grade_id": "text_to_bert-look", "locked": true, "schema_version": 3, "solution": false, "task": false}
from autograder.exercises.day4.text_to_bert.visible import build_tokenizer

for text in ("a pass rewrites the graph", "no graph"):
    print(text, "->", build_tokenizer()(text)["input_ids"])


# %% nbgrader={"grade": false, "grade_id": "text_to_bert-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def encode_texts(tokenizer, texts: list[str], most: int) -> dict[str, torch.Tensor]:
    """`input_ids` and `attention_mask`, `int64` of shape (texts, tokens), with at most `most` tokens a text."""
    ### BEGIN SOLUTION
    encoded = tokenizer(texts, padding=True, truncation=True, max_length=most, return_tensors="pt")
    return {"input_ids": encoded["input_ids"], "attention_mask": encoded["attention_mask"]}
    ### END SOLUTION


def export_bert(model: nn.Module, inputs: dict[str, torch.Tensor]) -> ExportedProgram:
    """One program for every number of texts and every length."""
    ### BEGIN SOLUTION
    sizes = {0: Dim("batch", min=1, max=64), 1: Dim("length", min=2, max=model.config.max_position_embeddings)}
    return export(model.eval(), (), dict(inputs), dynamic_shapes=dict.fromkeys(inputs, sizes))
    ### END SOLUTION


def greatest_difference(run, model: nn.Module, inputs: dict[str, torch.Tensor]) -> float:
    """The largest absolute difference between any two numbers that `run` and `model` return."""
    ### BEGIN SOLUTION
    with torch.no_grad():
        pairs = zip(run(**inputs), model(**inputs), strict=True)
        return float(torch.stack([(found - wanted).abs().max() for found, wanted in pairs]).max())
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "text_to_bert", "locked": true, "points": 15, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.day4.text_to_bert(encode_texts, export_bert, greatest_difference)

# %% [markdown] nbgrader={"grade": false, "grade_id": "find_attention-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 2. Find every attention block by its structure
#
# *12 minutes, medium.* In a graph of operators, attention that is written out has no name. It has a shape: a product of
# matrices (query and key), a softmax, a product of matrices (its result and the values). Between them may lie steps that
# work number by number: a scale, a mask that is added, a cast, a dropout that is off.
#
# Write `find_attention(graph_module)`: a list with a triple of nodes for each block, `(scores, softmax, output)`, where
# `scores` is the first product and `output` the second. Look at the data flow only: names differ from model to model. The
# cases hold BERT, GPT-2, other forms of attention, and four things that only look like it.
#
# <details><summary>Hint 1: a question</summary>From a softmax, which way leads up to the scores, and which down to the values? When is one of the two missing?</details>
# <details><summary>Hint 2: the idea</summary>For each softmax, walk up along <code>args[0]</code> and down along <code>users</code> through <code>mul</code>, <code>div</code>, <code>add</code>, <code>to</code>, <code>dropout</code>. Keep it if a product stands at both ends.</details>
# <details><summary>Hint 3: the shape</summary><code>while above.target in STEPS: above = above.args[0]</code>; products are <code>aten.matmul.default</code> and <code>aten.bmm.default</code>, the softmax is <code>aten.softmax.int</code>.</details>

# %% tags=["nbval-check-output", "not-graded"] nbgrader={"grade": false, "grade_id": "find_attention-look", "locked": true, "schema_version": 3, "solution": false, "task": false}
bert_graph = flat_graph(build_transformer("bert", layers=1), draw_text(2, 6, seed=0))
first_scores = next(node for node in bert_graph.graph.nodes if node.target is aten.matmul.default)
inside = False
for node in bert_graph.graph.nodes:
    inside = inside or node is first_scores
    if inside:
        print(f"{node.name:12} {node.target!s:28} reads {[source.name for source in node.all_input_nodes]}")
    if node.target is aten.contiguous.default:
        break


# %% nbgrader={"grade": false, "grade_id": "find_attention-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def find_attention(graph_module: fx.GraphModule) -> list[tuple[fx.Node, fx.Node, fx.Node]]:
    """For each attention block the product of query and key, the softmax, and the product with the values."""
    ### BEGIN SOLUTION
    aten = torch.ops.aten
    products = (aten.matmul.default, aten.bmm.default)

    def passed_on(node):
        """The operands of which a step only changes the values; none where the node is no step."""
        if node.target in (aten.mul.Tensor, aten.add.Tensor):
            return [value for value in node.args if isinstance(value, fx.Node)]
        idle = node.target is aten.dropout.default and not node.args[2]
        cast = str(node.target).startswith("aten.to.")
        return [node.args[0]] if idle or cast or node.target is aten.div.Tensor else []

    def search(start, neighbours, wanted):
        """The first wanted node among those that steps lead to; no node is looked at twice."""
        seen, pending = set(), [start]
        while pending:
            node = pending.pop(0)
            if wanted(node):
                return node
            for other in neighbours(node):
                if other not in seen:
                    seen.add(other)
                    pending.append(other)
        return None

    found = []
    for softmax in graph_module.graph.nodes:
        if softmax.target is not aten.softmax.int:
            continue
        scores = search(softmax.args[0], passed_on, lambda node: node.target in products)
        last = search(
            softmax,
            lambda node: [user for user in node.users if node in passed_on(user)],
            lambda node: any(user.target in products and user.args[0] is node for user in node.users),
        )
        if scores and last:
            found.append((scores, softmax, next(u for u in last.users if u.target in products and u.args[0] is last)))
    return found
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "find_attention", "locked": true, "points": 15, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.day4.find_attention(find_attention)

# %% [markdown] nbgrader={"grade": false, "grade_id": "fuse_attention-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 3. Replace attention that is written out by SDPA
#
# *20 minutes, hard.* The fused operator computes a whole block at once, and never holds all scores in memory:
#
# ```python
# scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=s)  # softmax(query @ keyᵀ * s + mask) @ value
# ```
#
# Write `fuse_attention(graph_module)`. It puts `aten.scaled_dot_product_attention.default` in the place of each block
# that your `find_attention` finds, and returns the module. The graph must compute what it did, for every mask: the scale
# is the one in the graph, whether it multiplies, divides, or is not there.
#
# Leave a block alone where its weights (or a step on the way) are read by others, or its softmax does not run over the
# last dimension. Remove what nobody reads any more; a second run finds nothing left to do.
#
# <details><summary>Hint 1: a question</summary>What does the operator do when you give it no <code>scale</code>? And how does the key lie in the first product?</details>
# <details><summary>Hint 2: the idea</summary>Walk from the softmax to the scores and collect: <code>mul</code> and <code>div</code> change the scale, which begins at 1; what <code>add</code> adds is the mask. The key comes back by one more transpose.</details>
# <details><summary>Hint 3: the shape</summary><code>with graph.inserting_before(output): …</code>, two calls of <code>graph.call_function</code>, <code>output.replace_all_uses_with(fused)</code>; after the loop <code>graph.eliminate_dead_code()</code> and <code>graph_module.recompile()</code>.</details>


# %% nbgrader={"grade": false, "grade_id": "fuse_attention-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def fuse_attention(graph_module: fx.GraphModule) -> fx.GraphModule:
    """Attention that is written out becomes the fused operator, with its scale and its mask."""
    ### BEGIN SOLUTION
    graph = graph_module.graph

    def like(mask, scores, step):
        """Whether the operator takes this mask: of the dtype of the scores, and not larger than they are."""
        if not isinstance(mask, fx.Node) or step.kwargs.get("alpha", 1) != 1:
            return False
        value, wanted = mask.meta["val"], scores.meta["val"]
        return value.dtype == wanted.dtype and value.dim() > 1 and step.meta["val"].shape == wanted.shape

    for scores, softmax, output in find_attention(graph_module):
        scale, mask, node, old = 1.0, None, scores, [scores]
        while node is not output and len(node.users) == 1:
            (step,) = node.users
            other = next((value for value in step.args[:2] if value is not node), None)
            if step is output:
                sayable = other is not None
            elif step is softmax:
                sayable = len(step.args) == 2 and other in (-1, step.meta["val"].dim() - 1)
            elif step.target in (aten.mul.Tensor, aten.div.Tensor):
                sayable = softmax not in old and mask is None and isinstance(other, (int, float))
                if sayable:
                    scale = scale * other if step.target is aten.mul.Tensor else scale / other
            elif step.target is aten.add.Tensor:
                sayable = softmax not in old and mask is None and like(other, scores, step)
                mask = other
            else:  # a dropout that is off, or a cast: to the dtype that was there already
                sayable = step.meta["val"].dtype == node.meta["val"].dtype
            if not sayable:
                break
            node = step
            old.append(step)
        if node is not output:
            continue
        query, turned = scores.args
        with graph.inserting_before(output):
            key = graph.call_function(aten.transpose.int, (turned, -2, -1))
            fused = graph.call_function(
                aten.scaled_dot_product_attention.default,
                (query, key, output.args[1]),
                {"attn_mask": mask, "scale": scale},
            )
        output.replace_all_uses_with(fused)
        for step in reversed(old):  # `eliminate_dead_code` would keep a dropout, even one that is off
            graph.erase_node(step)
    graph.eliminate_dead_code()
    graph_module.recompile()
    return graph_module
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "fuse_attention", "locked": true, "points": 20, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.day4.fuse_attention(fuse_attention)

# %% [markdown] nbgrader={"grade": false, "grade_id": "layer_costs-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 4. What each layer costs, counted and by formula
#
# *12 minutes, medium.* How many operations does one layer of a transformer take? Answer twice, and let the two answers
# check each other:
#
# 1. `layer_formula(batch, length, width, inner)` says it without a graph. Attention has four linear layers of
#    `width` × `width` and two products of matrices; the feed-forward part has two linear layers, from `width` to `inner`
#    and back.
# 2. `layer_costs(graph_module)` counts it in the graph: a list with a number for each layer. `layer_of(node)` says which
#    layer a node belongs to, `node.meta["val"].shape` how large its value is.
#
# A product of (n, k) and (k, m) takes 2·n·k·m operations: a multiplication and an addition are two. Biases, norms and
# softmax do not count. BERT writes linear layers as `linear(input, weight, bias)`, GPT-2 as `addmm(bias, input, weight)`.
#
# <details><summary>Hint 1: a question</summary>How many numbers does a product compute, and over how many does it sum for each?</details>
# <details><summary>Hint 2: the idea</summary>For each of the three operators: twice the numbers of the result, times the last size of the input that is multiplied.</details>
# <details><summary>Hint 3: the shape</summary><code>2 * node.meta["val"].numel() * node.args[place].meta["val"].shape[-1]</code> with the place 0 for <code>linear</code> and <code>matmul</code>, 1 for <code>addmm</code>; summed for each <code>layer_of(node)</code> that is not <code>None</code>.</details>

# %% nbgrader={"grade": false, "grade_id": "layer_costs-use", "locked": true, "schema_version": 3, "solution": false, "task": false}
from autograder.exercises.day4.layer_costs.visible import layer_of

# %% tags=["nbval-check-output", "not-graded"] nbgrader={"grade": false, "grade_id": "layer_costs-look", "locked": true, "schema_version": 3, "solution": false, "task": false}
example = flat_graph(build_transformer("gpt2"), draw_text(2, 6, seed=0))
for node in list(example.graph.find_nodes(op="call_function", target=aten.addmm.default))[:5]:
    shapes = [tuple(source.meta["val"].shape) for source in node.all_input_nodes]
    print(f"{node.name:8} layer {layer_of(node)}: {shapes} to {tuple(node.meta['val'].shape)}")


# %% nbgrader={"grade": false, "grade_id": "layer_costs-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def layer_formula(batch: int, length: int, width: int, inner: int) -> int:
    """Operations of one layer for `batch` texts of `length` tokens."""
    ### BEGIN SOLUTION
    linear = 4 * width * width + 2 * width * inner
    products = 2 * length * width
    return 2 * batch * length * (linear + products)
    ### END SOLUTION


def layer_costs(graph_module: fx.GraphModule) -> list[int]:
    """Operations of each layer, counted in the graph."""
    ### BEGIN SOLUTION
    costs = {}
    for node in graph_module.graph.nodes:
        layer = layer_of(node)
        if layer is None:
            continue
        if node.target is aten.linear.default:
            summed = node.args[0].meta["val"].shape[-1]
        elif node.target is aten.addmm.default:
            summed = node.args[1].meta["val"].shape[-1]
        elif node.target is aten.matmul.default:
            summed = node.args[0].meta["val"].shape[-1]
        else:
            continue
        costs[layer] = costs.get(layer, 0) + 2 * node.meta["val"].numel() * summed
    return [costs[layer] for layer in sorted(costs)]
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "layer_costs", "locked": true, "points": 10, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.day4.layer_costs(layer_formula, layer_costs)

# %% [markdown] nbgrader={"grade": false, "grade_id": "dynamic_gpt2-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 5. GPT-2 compiled once for every batch and length
#
# *15 minutes, medium.* Texts come in batches of any number of rows and any length. The cell below shows what
# `torch.compile` makes of them if you say nothing.
#
# Write `compile_gpt2(model, backend)`. It returns a function that takes `input_ids` and `attention_mask`, both of shape
# (rows, length), and returns the states, of shape (rows, length, width): the first thing that
# `model(input_ids, attention_mask=…)` returns. The whole model goes through `torch.compile` with this backend, on every
# call, as many texts at a time as come.
#
# However many sizes come, the backend gets **one graph, and at most one more**. Dynamo takes a size of 1 for a constant,
# so that a text alone may have a graph of its own. The judge runs your graph on sizes that it was not made from.
#
# <details><summary>Hint 1: a question</summary>On Day 1 one size varied. Here two do, in two inputs. When does Dynamo learn that the second one varies, and what did that cost?</details>
# <details><summary>Hint 2: the idea</summary>Say so beforehand: <code>torch.compile</code> has a switch for all sizes; <code>torch._dynamo.mark_dynamic(tensor, dimension)</code> is for single ones, on each call.</details>
# <details><summary>Hint 3: the shape</summary><code>compiled = torch.compile(model, backend=backend, dynamic=…)</code>, and <code>return lambda input_ids, attention_mask: compiled(…)[0]</code>.</details>

# %% tags=["not-graded"] nbgrader={"grade": false, "grade_id": "dynamic_gpt2-look", "locked": true, "schema_version": 3, "solution": false, "task": false}
made_for = []


def note_sizes(graph_module, example_inputs):
    values = [node.meta["example_value"] for node in graph_module.graph.find_nodes(op="placeholder")]
    tokens = next(value for value in values if isinstance(value, torch.Tensor) and value.dim() == 2)
    made_for.append(" x ".join(str(size) if isinstance(size, int) else "any" for size in tokens.shape))
    return graph_module.forward


torch._dynamo.reset()
unprepared = torch.compile(build_transformer("gpt2", layers=1), backend=note_sizes)
with torch.no_grad():
    for rows, length in ((2, 5), (3, 5), (3, 7), (1, 9), (4, 10)):
        tokens, mask = draw_text(rows, length, seed=0)
        unprepared(tokens, attention_mask=mask)
        print(f"after {rows} x {length:2}: {len(made_for)} graphs, the last one for {made_for[-1]}")
torch._dynamo.reset()


# %% nbgrader={"grade": false, "grade_id": "dynamic_gpt2-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def compile_gpt2(model: nn.Module, backend):
    """A function of `input_ids` and `attention_mask`, `int64` of shape (rows, length), that returns the states."""
    ### BEGIN SOLUTION
    compiled = torch.compile(model, backend=backend, dynamic=True)

    def run(input_ids, attention_mask):
        return compiled(input_ids, attention_mask=attention_mask)[0]

    return run
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "dynamic_gpt2", "locked": true, "points": 25, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.day4.dynamic_gpt2(compile_gpt2)

# %% [markdown] nbgrader={"grade": false, "grade_id": "compile_profile-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 6. What compiling costs, what it gives, and when it pays
#
# *15 minutes, medium.* Several ways to run one model: plain (`"eager"`), and compiled by different backends. Which is
# best depends on how long it will run. Three functions:
#
# | function | returns |
# | --- | --- |
# | `compile_profile(functions, clock, synchronize, warmup, repeats)` | for each name in the dictionary `functions` a row: `call_seconds`, the median of the timed calls, and `cost_seconds`, by how much the *first* call took longer than that. Each function is called once, then `warmup` times, then `repeats` times timed, each call on its own |
# | `break_even(plain, compiled)` | for two such rows the least whole number of calls, from 1, after which `compiled` has taken no more time than `plain`: *cost + calls × call*. `math.inf` if a call saves nothing |
# | `cheapest(profile, calls)` | the name whose total for so many calls is least |
#
# As on Day 1, the check hands in a clock whose every tick it knows. You may use your `measure` of that day: the cell
# below fetches it, and reminds you of what it returns.
#
# <details><summary>Hint 1: a question</summary>The first call of a compiled model compiles, and then? And is the first call of the plain model like all others?</details>
# <details><summary>Hint 2: the idea</summary>Both totals are straight lines. They cross where <em>what compiling costs more</em> is <em>what each call saves</em>, times the calls; from there up to the next whole number.</details>
# <details><summary>Hint 3: the shape</summary><code>found = measure(function, …)</code> for each function, cost is <code>found["compile_seconds"] - found["median_seconds"]</code>; <code>max(1, math.ceil(more / saved))</code>; <code>min(profile, key=lambda name: …)</code>.</details>

# %% nbgrader={"grade": false, "grade_id": "compile_profile-use", "locked": true, "schema_version": 3, "solution": false, "task": false}
from autograder import use

measure = use("measure")
print("measure returns compile_seconds (the whole first call), median_seconds and spread_seconds")


# %% nbgrader={"grade": false, "grade_id": "compile_profile-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def compile_profile(functions, clock, synchronize, warmup: int, repeats: int) -> dict[str, dict[str, float]]:
    """For each name what the first call costs more than others, and what a call takes then, in seconds."""
    ### BEGIN SOLUTION
    profile = {}
    for name, function in functions.items():
        found = measure(function, clock, synchronize, warmup, repeats)
        call = found["median_seconds"]
        profile[name] = {"cost_seconds": found["compile_seconds"] - call, "call_seconds": call}
    return profile
    ### END SOLUTION


def break_even(plain: dict[str, float], compiled: dict[str, float]) -> float:
    """After how many calls `compiled` has taken no more time than `plain`; `math.inf` for never."""
    ### BEGIN SOLUTION
    saved = plain["call_seconds"] - compiled["call_seconds"]
    if saved <= 0:
        return math.inf
    return max(1, math.ceil((compiled["cost_seconds"] - plain["cost_seconds"]) / saved))
    ### END SOLUTION


def cheapest(profile: dict[str, dict[str, float]], calls: int) -> str:
    """The name that takes least time for so many calls, the first one included."""
    ### BEGIN SOLUTION
    return min(profile, key=lambda name: profile[name]["cost_seconds"] + calls * profile[name]["call_seconds"])
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "compile_profile", "locked": true, "points": 15, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.day4.compile_profile(compile_profile, break_even, cheapest)

# %% [markdown] nbgrader={"grade": false, "grade_id": "compile_profile-real-text", "locked": true, "schema_version": 3, "solution": false, "task": false}
# Now for real: a small BERT on this machine, plain, through AOTAutograd alone, and through Inductor. **Prediction.** Which of
# the two makes calls faster at all, and does it pay after ten calls, after thousands, or never?

# %% tags=["not-graded"] nbgrader={"grade": false, "grade_id": "compile_profile-real", "locked": true, "schema_version": 3, "solution": false, "task": false}
from time import perf_counter

from fxopt_core.devices import choose_device, synchronize

device = choose_device()
small_bert = build_transformer("bert", width=64, inner=256, layers=1, fused=True).to(device)
tokens, mask = (value.to(device) for value in draw_text(4, 32, seed=0))
ways = {"eager": small_bert}
ways |= {name: torch.compile(small_bert, backend=name) for name in ("aot_eager", "inductor")}
torch._dynamo.reset()
try:
    with torch.no_grad():
        profile = compile_profile(
            {name: lambda run=run: run(tokens, attention_mask=mask) for name, run in ways.items()},
            perf_counter,
            lambda: synchronize(device),
            warmup=5,
            repeats=30,
        )
    for name, row in profile.items():
        calls = break_even(profile["eager"], row) if name != "eager" else 0
        pays = "" if not calls else f"pays after {calls:,} calls" if calls < math.inf else "never pays"
        print(f"{name:10} cost {row['cost_seconds']:7.3f} s, then {1e6 * row['call_seconds']:7.0f} µs a call  {pays}")
    print("cheapest for:", {calls: cheapest(profile, calls) for calls in (1, 1_000, 1_000_000)})
except NotImplementedError:
    print("not yet written")

# %% [markdown] nbgrader={"grade": false, "grade_id": "ex04-submit-text", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Submit
#
# Save the notebook (Ctrl+S or ⌘S), then take the `#` away and run this cell. It says how many points you have and
# where the feedback page lies.

# %%
# submit("ex_04")
