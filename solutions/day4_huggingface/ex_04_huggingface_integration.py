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
# You go from text to a graph that you know piece by piece. Six tasks, about 100 minutes. All models are small, and built
# from their configurations with random weights: there's no download.
#
# Write your own code: while grading, the tools of `fxopt_core` that would answer a task are out of reach.

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
# *12 minutes, easy.* Three functions, from words to a trusted program:
#
# 1. `encode_texts(tokenizer, texts, most)` returns a dictionary with `input_ids` and `attention_mask` (more is fine), both
#    of shape (texts, tokens). Short texts are filled up with `[PAD]` to the longest one: there, and only there, the mask is 0. No
#    text has more than `most` tokens, `[CLS]` and `[SEP]` included.
# 2. `export_bert(model, inputs)`, given several texts, returns an `ExportedProgram` that takes both by name, for 1 to
#    64 texts and any length from 2 to what the model can read (`model.config.max_position_embeddings`). The model
#    comes as training left it.
# 3. `greatest_difference(run, model, inputs)` calls `run(**inputs)` and `model(**inputs)`, which both return a tuple of
#    tensors. It returns the largest absolute difference between two numbers in the same place, as a float; where one of them
#    is `nan`, it returns `nan` or infinity.
#
# <details><summary>Hint 1: a question</summary>What does a row hold where its text is over? Who tells the model?</details>
# <details><summary>Hint 2: the idea</summary>You call a tokenizer like a function; it knows <code>padding</code>, <code>truncation</code>, <code>max_length</code> and <code>return_tensors</code>. Both inputs of the program share their two dynamic dimensions.</details>
# <details><summary>Hint 3: the shape</summary><code>export(model.eval(), (), inputs, dynamic_shapes=…)</code> with the same sizes for both names. For the comparison, <code>(found - wanted).abs().max()</code> for each pair of outputs. And the greatest of them? Python's <code>max</code> can lose a <code>nan</code>.</details>

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
# *18 minutes, medium.* Attention that is written out in operators has no name, but it has a shape: a product of matrices (query
# and key), a softmax, and a product of matrices with the weights first and the values second. Between them there may only be
# steps of these kinds:
#
# | step | operator |
# | --- | --- |
# | a scale | `mul` by anything, `div` by anything |
# | a mask that is added | `add` |
# | a cast | `to` |
# | a dropout that is off | `dropout(…, …, False)`, whatever its probability |
#
# The scores (or weights) may be either operand of `mul` and `add`.
#
# Write `find_attention(graph_module)`: a list with a triple of nodes for a block, `(scores, softmax, output)`, where `scores` is
# the first product and `output` the second. A softmax belongs to one block; where several products fit, take any. Follow the
# data flow: names differ from model to model. Leave the graph as it is. The cases hold BERT, GPT-2, other forms of attention, and things that only look
# like it.
#
# <details><summary>Hint 1: a question</summary>From a softmax, which way leads up to the scores, and which down to the values? When is one of the two missing?</details>
# <details><summary>Hint 2: the idea</summary>From each softmax, search upwards along the operands that a step passes on, and downwards along <code>users</code>. Keep the block if there's a product at both ends.</details>
# <details><summary>Hint 3: the shape</summary>A function that returns the operands which a step passes on, and <code>[]</code> for any other node; two searches that use it. Products are <code>aten.matmul.default</code> and <code>aten.bmm.default</code>, the softmax is <code>aten.softmax.int</code>, a dropout that is off has <code>False</code> as its third argument.</details>

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
# *35 minutes, hard.* One operator computes a whole block:
#
# ```python
# scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=s)  # softmax(query @ keyᵀ * s + mask) @ value
# ```
#
# Write `fuse_attention(graph_module)`. It puts `aten.scaled_dot_product_attention.default` for what `find_attention` finds,
# and returns the module. The graph must compute what it did before.
#
# The operator knows one scale, a number, then one mask of the scores' dtype, two or more dimensions, not larger than they
# are. A block that says no more must be fused: its numbers may multiply or divide, several times or not at all. (Skip
# idle dropouts and casts.) Others are yours to leave: several masks, a mask before the scale, a tensor scale, a factor after
# the softmax, a product of two blocks.
#
# Leave a block alone where others read its weights (or a step between), or its softmax runs over any dimension but the
# last. Remove what nobody reads any more. A second run changes nothing.
#
# <details><summary>Hint 1: a question</summary>What does the operator do when you give it no <code>scale</code>? And how does the key lie in the first product?</details>
# <details><summary>Hint 2: the idea</summary>Walk from the scores down to the output while there is one reader, and collect: <code>mul</code> and <code>div</code> change the scale, which begins at 1; what <code>add</code> adds is the mask; a dropout that is off and a cast to the dtype that is there already change nothing. One more transpose brings the key back.</details>
# <details><summary>Hint 3: the shape</summary><code>with graph.inserting_before(output): …</code>, two calls of <code>graph.call_function</code>, <code>output.replace_all_uses_with(fused)</code>. Then erase the old steps yourself, from the output upwards (<code>eliminate_dead_code</code> keeps a dropout, even one that is off), and call <code>graph_module.recompile()</code>.</details>


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
        fused.meta = dict(output.meta)  # a block below may ask what its mask is like
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
# *12 minutes, medium.* How many operations does one layer of a transformer take? Say it twice:
#
# 1. `layer_formula(batch, length, width, inner)` says it from the sizes alone. Attention has four linear layers of `width` ×
#    `width` and two products of matrices; the feed-forward part has two linear layers, from `width` to `inner` and back.
# 2. `layer_costs(graph_module)` counts it in the graph: a list with one number for a layer, in order. Layers may differ. Leave
#    the graph as it is, `meta` included. `layer_of(node)` says a node's layer, `node.meta["val"].shape` the shape of its value.
#
# A product of (n, k) and (k, m) takes 2·n·k·m operations: a multiplication and an addition are two. Biases, norms and softmax
# do not count. BERT writes linear layers as `linear(input, weight, bias)`, GPT-2 as `addmm(bias, input, weight)`.
# `torch.utils.flop_counter` is out of reach.
#
# <details><summary>Hint 1: a question</summary>How many numbers does a product compute, and over how many does it sum for each?</details>
# <details><summary>Hint 2: the idea</summary>For each of the three operators: twice the numbers of the result, times the last size of the input that is multiplied.</details>
# <details><summary>Hint 3: the shape</summary>A dictionary from layer to number. For <code>linear</code> and <code>matmul</code> the input that is multiplied is <code>args[0]</code>, for <code>addmm</code> it is <code>args[1]</code>. Leave out the nodes whose layer is <code>None</code>.</details>

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
# *10 minutes, medium.* Texts come in any number and of any length.
#
# Write `compile_gpt2(model, backend)`. It returns a function that takes `input_ids` and `attention_mask` (by position or by
# these names), both of shape (rows, length), and returns the states (rows, length, width), the first thing that
# `model(input_ids, attention_mask=…)` returns. Every call must go through the whole model, compiled by `torch.compile` with
# this backend, with as many texts at a time as come.
#
# However many sizes come, and whatever else is compiled meanwhile, the backend gets **one graph, and at most one
# more**: Dynamo takes 1 for a constant, so a text that comes alone may have its own. (The first texts that come are
# never as many as they are long.) Gradients aren't asked for. The judge runs your graph on other sizes.
# `torch._dynamo.testing` is out of reach.
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
# *13 minutes, medium.* There are several ways to run one model: plain (`"eager"`), and compiled by one of the backends. Which is
# best depends on how long it will run. Three functions:
#
# | function | returns |
# | --- | --- |
# | `compile_profile(functions, clock, synchronize, warmup, repeats)` | for each name in the dictionary `functions` a row, in any order: `call_seconds`, the median of the timed calls, and `cost_seconds`, by how much the *first* call took longer than that (negative if it took less). Each function is called once, then `warmup` times, then `repeats` times timed, each call on its own |
# | `break_even(plain, compiled)` | for two such rows the least whole number of calls, from 1, after which `compiled` has taken no more time than `plain`: *cost + calls × call*. `math.inf` if a call saves nothing, whatever the costs are |
# | `cheapest(profile, calls)` | the name whose total for so many calls is least; of several that are equal, the first in the dictionary |
#
# As on Day 1, the check hands in a clock whose ticks it knows. You may use your `measure` from that day: the cell below fetches
# it, and reminds you of what it returns.
#
# <details><summary>Hint 1: a question</summary>The first call of a compiled model compiles, and then? And is the first call of the plain model like all others?</details>
# <details><summary>Hint 2: the idea</summary>Both totals are straight lines. They cross where <em>what compiling costs more</em> is <em>what each call saves</em>, times the calls; from there up to the next whole number.</details>
# <details><summary>Hint 3: the shape</summary><code>found = measure(function, …)</code> for each function; its <code>compile_seconds</code> holds a whole first call. For <code>break_even</code>, a quotient that is rounded up, and two cases apart. <code>min(profile, key=…)</code> takes the first of equals.</details>

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
# Now for real: a small BERT on this machine, plain, through AOTAutograd alone, and through Inductor. **Prediction.** Which of the
# two makes calls faster at all? And does it pay after ten calls, after thousands, or not at all?

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
# Save the notebook (Ctrl+S or ⌘S), then remove the `#` and run this cell. It tells you your points and where your feedback
# page is.

# %%
# submit("ex_04")
