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

# %% [markdown] nbgrader={"grade": false, "grade_id": "ex02-introduction", "locked": true, "schema_version": 3, "solution": false, "task": false}
# # Exercise 2: changing FX graphs
#
# You'll write the rewrites that compilers live on. They're short, and each has a trap that a real compiler once fell
# into. The core takes about two hours. What goes beyond that is marked as *stretch*.
#
# A rewrite takes a `torch.fx.GraphModule` and returns one: the same, changed, or a new one. A check runs your function
# on some graphs, draws them before and after, and says which trap you fell into, if it can tell. `submit`, at the end,
# tries hidden cases as well. You get a task's points when all of its cases pass.
#
# You may use all of `torch.fx` but its finished answers (`passes.dialect.common.cse_pass`, `experimental.const_fold`,
# `experimental.optimization`), and `effects_of` and `Storages` from `fxopt_core.graphs`: `help(effects_of)` tells you
# what they know. While you're graded, the passes of `fxopt_core` are out of reach.

# %% nbgrader={"grade": false, "grade_id": "ex02-setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import torch
from torch import nn

from autograder import check, submit
from fxopt_core.graphs.aliases import Storages
from fxopt_core.graphs.effects import effects_of
from fxopt_workbench.pictures import draw

# %% [markdown] nbgrader={"grade": false, "grade_id": "walk_graph-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 1. Who reads what, and the longest way through
#
# *12 minutes, easy.* Before you change a graph, ask it two things. Asking changes nothing: leave the graph as it is,
# `meta` included.
#
# 1. **Which values are shared?** `shared_values(graph_module)` returns the names of all nodes that more than one node
#    reads, in the order of the graph. A change to one concerns all its readers.
# 2. **What bounds the time?** Operations in a chain, each reading the one before it, can't run side by side.
#    `critical_path(graph_module)` returns the names of the operations (`call_function`, `call_method`, `call_module`)
#    on a longest chain, first to last. If several chains are equally long, return any. The chain may end anywhere: an
#    in-place write takes time even if its result is unread. If the graph has no operations, the list is empty. A
#    graph may have thousands of nodes.
#
# The next cell shows readers.
#
# <details><summary>Hint 1: a question</summary>A node comes after everything that it reads. If you know the longest chain that ends in each of its inputs, what's the longest chain that ends in the node itself?</details>
# <details><summary>Hint 2: the idea</summary><code>node.users</code> is a dictionary whose keys are the readers, and <code>node.all_input_nodes</code> lists what a node reads. Walk over the graph once and fill a dictionary from node to chain.</details>
# <details><summary>Hint 3: the shape</summary>For each node, take the longest of its inputs' chains: <code>max(…, key=len, default=[])</code>. Add the node's own name if it counts as an operation, and store the chain. Then ask which of all chains is the longest.</details>


# %% tags=["nbval-check-output", "not-graded"] nbgrader={"grade": false, "grade_id": "walk_graph-look", "locked": true, "schema_version": 3, "solution": false, "task": false}
class Fork(nn.Module):
    def forward(self, x):
        scaled = x * 2
        return torch.relu(scaled) + scaled


for node in torch.fx.symbolic_trace(Fork()).graph.nodes:
    print(f"{node.name:8} reads {node.all_input_nodes!s:14} is read by {list(node.users)}")


# %% nbgrader={"grade": false, "grade_id": "walk_graph-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def shared_values(graph_module: torch.fx.GraphModule) -> list[str]:
    """Names of the nodes that more than one node reads, in the order of the graph."""
    ### BEGIN SOLUTION
    return [node.name for node in graph_module.graph.nodes if len(node.users) > 1]
    ### END SOLUTION


def critical_path(graph_module: torch.fx.GraphModule) -> list[str]:
    """Names of the operations on a longest chain, first to last."""
    ### BEGIN SOLUTION
    longest = {}
    for node in graph_module.graph.nodes:
        before = max((longest[source] for source in node.all_input_nodes), key=len, default=[])
        longest[node] = [*before, node.name] if node.op.startswith("call") else before
    return max(longest.values(), key=len)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "walk_graph", "locked": true, "points": 8, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.day2.walk_graph(shared_values, critical_path)

# %% [markdown] nbgrader={"grade": false, "grade_id": "replace_relu-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 2. Replace an activation, everywhere
#
# *13 minutes, medium.* Write `replace_relu(graph_module)`. It turns every ReLU into one SiLU, so that the graph
# computes what the model would have computed had it been written with SiLU. People write a ReLU in many ways:
#
# | form | `node.op` | what to look at |
# | --- | --- | --- |
# | `torch.relu(x)`, `F.relu(x)`, `F.relu(input=x)` | `call_function` | the target, and where the input is |
# | `x.relu()` | `call_method` | the target |
# | `nn.ReLU()` | `call_module` | the class of the module at the path |
# | `x.relu_()`, `torch.relu_(x)`, `F.relu(x, inplace=True)`, `F.relu(x, True)`, `nn.ReLU(inplace=True)` | all three | it *writes into its input* |
#
# An in-place ReLU overwrites its input, and somebody may read that input later. So the new SiLU must write, too:
# `F.silu(x, inplace=True)`. Leave the rest alone: no other operation changes or goes, and the modules of the model
# stay as and where they are. Somebody else may use them.
#
# <details><summary>Hint 1: a question</summary>For each row of the table: which test tells this form from everything else? Everything else includes <code>relu6</code>, the module <code>nn.ReLU6</code>, a module that's merely <em>called</em> <code>relu</code>, and somebody's own function of that name.</details>
# <details><summary>Hint 2: the idea</summary>Write a helper that looks at a node and says: no ReLU, a ReLU, or a ReLU that works in place. Then follow the five steps of every rewrite.</details>
# <details><summary>Hint 3: the shape</summary>The helper returns <code>None</code>, <code>False</code> or <code>True</code>, with one <code>if</code> for each kind of node. The loop takes the input from <code>args</code> or <code>kwargs</code> and makes <code>graph.call_function(F.silu, (value,), {"inplace": writes})</code>. Steps 3 to 5 are yours.</details>


# %% tags=["nbval-check-output", "not-graded"] nbgrader={"grade": false, "grade_id": "replace_relu-look", "locked": true, "schema_version": 3, "solution": false, "task": false}
class ManyForms(nn.Module):
    def __init__(self):
        super().__init__()
        self.act, self.relu = nn.ReLU(), nn.Identity()

    def forward(self, x):
        a = torch.relu(x) + nn.functional.relu(x, inplace=True) + x.relu()
        return self.relu(a) + self.act(a) + nn.functional.relu6(a)


many = torch.fx.symbolic_trace(ManyForms())
for node in many.graph.nodes:
    if node.op.startswith("call") and "add" not in node.name:
        is_module = node.op == "call_module"
        what = type(many.get_submodule(node.target)).__name__ if is_module else node.target
        print(f"{node.op:14} {getattr(what, '__name__', what):10} {dict(node.kwargs)}")


# %% nbgrader={"grade": false, "grade_id": "replace_relu-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
F = nn.functional


def works_in_place(node: torch.fx.Node, graph_module: torch.fx.GraphModule) -> bool | None:
    """Whether a ReLU works in place; `None` for a node that is no ReLU."""
    ### BEGIN SOLUTION
    if node.op == "call_module":
        module = graph_module.get_submodule(node.target)
        return module.inplace if type(module) is nn.ReLU else None
    if node.op == "call_method":
        return {"relu": False, "relu_": True}.get(node.target)
    if node.target in (torch.relu_, F.relu_):
        return True
    if node.target in (torch.relu, F.relu):
        return node.kwargs.get("inplace", node.args[1] if len(node.args) > 1 else False)
    return None
    ### END SOLUTION


def replace_relu(graph_module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Replace every ReLU by a SiLU that works in place where the ReLU did."""
    ### BEGIN SOLUTION
    graph = graph_module.graph
    for node in list(graph.nodes):
        writes = works_in_place(node, graph_module)
        if writes is None:
            continue
        value = node.args[0] if node.args else node.kwargs["input"]
        with graph.inserting_before(node):
            new = graph.call_function(F.silu, (value,), {"inplace": writes})
        node.replace_all_uses_with(new)
        graph.erase_node(node)
    graph.lint()
    graph_module.recompile()
    return graph_module
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "replace_relu", "locked": true, "points": 10, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.day2.replace_relu(replace_relu)

# %% [markdown] nbgrader={"grade": false, "grade_id": "remove_dead_code-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 3. Remove what nobody needs
#
# *15 minutes, medium.* Code is **dead** when nobody can tell whether it ran. An unread value isn't enough: a node may
# also write into a tensor, draw from the random stream, switch a mode, update running statistics or stop a wrong run.
#
# Write `remove_dead_code(graph_module)`. It removes every operation and every `get_attr` that is dead, keeps all
# inputs, adds no nodes, and always recompiles. `effects_of(node)` tells you what a node does besides computing. Two
# cases are a matter of convention. A write counts even if it goes into a local tensor that nobody reads afterwards: it
# stays. An operation that could only fail, on an index out of range, is dead.
#
# **Prediction.** Two of the seven lines before `return` in the next cell are dead. Which ones? (The cell prints one row
# a node. Seven aren't `observable`, but some of those are read.)
#
# <details><summary>Hint 1: a question</summary>A node is dead. What about a node that only the dead one read? In which order do you meet the two in one walk?</details>
# <details><summary>Hint 2: the idea</summary>Walk backwards over a copy of the list: then you meet a reader before what it reads. Erase a node if it has no users and no observable effect.</details>
# <details><summary>Hint 3: the shape</summary>A loop over <code>reversed(list(graph.nodes))</code>; one condition with three parts (the kind of node, its users, its effects); <code>graph.erase_node(node)</code>. Then the two calls that end every rewrite.</details>


# %% tags=["nbval-check-output", "not-graded"] nbgrader={"grade": false, "grade_id": "remove_dead_code-look", "locked": true, "schema_version": 3, "solution": false, "task": false}
class Unread(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.drop = nn.BatchNorm1d(4), nn.Dropout(0.5)

    def forward(self, x):
        torch.exp(x)
        x.add_(1)
        nn.functional.relu(x, inplace=True)
        torch.rand_like(x)
        self.norm(x)
        self.drop(x)
        torch._assert(x.dim() == 2, "two dimensions, please")
        return torch.neg(x)


unread = torch.fx.symbolic_trace(Unread().train())
unread.norm.eval()
for node in unread.graph.nodes:
    effects = effects_of(node)
    print(
        f"{node.name:10} writes {list(effects.writes)!s:8} random {effects.random!s:6} observable {effects.observable}"
    )


# %% nbgrader={"grade": false, "grade_id": "remove_dead_code-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def remove_dead_code(graph_module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Remove every operation that nobody needs, and keep everything that has an effect."""
    ### BEGIN SOLUTION
    graph = graph_module.graph
    for node in reversed(list(graph.nodes)):
        is_signature = node.op in ("placeholder", "output")
        if not is_signature and not node.users and not effects_of(node).observable:
            graph.erase_node(node)
    graph.lint()
    graph_module.recompile()
    return graph_module
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "remove_dead_code", "locked": true, "points": 12, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.day2.remove_dead_code(remove_dead_code)

# %% [markdown] nbgrader={"grade": false, "grade_id": "merge_duplicates-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 4. Compute once what is computed twice
#
# *25 minutes, hard.* Two nodes that apply the same function to the same values give the same value, so one of them can
# go. That's **common-subexpression elimination**. Write it as two functions, because Task 7 needs the first one by
# itself:
#
# 1. `find_duplicates(graph_module)` leaves the graph alone and returns a dictionary: from each node that can go to the
#    earlier node that can stand in for it.
# 2. `merge_duplicates(graph_module)` lets every reader read the stand-in, erases the duplicates, recompiles in any
#    case and returns the module.
#
# <details><summary>Hint 1: a question</summary>You meet a node. What would you have to remember of all earlier nodes to tell at once whether one of them is the same?</details>
# <details><summary>Hint 2: the idea</summary>Walk once, with a dictionary from a <em>key</em> to the first node that has it. The key is made of what the node calls and of its arguments. A merged node counts as its stand-in there, and a literal as its type and its text.</details>
# <details><summary>Hint 3: the shape</summary>A recursive <code>key(value)</code> with one branch each for nodes, slices, lists and tuples (two different kinds), dictionaries (in whatever order) and literals. Then <code>first = seen.setdefault(key_of(node), node)</code>: if <code>first is node</code>, it's new. Before that, ask the conditions below. When you merge a returned node, its stand-in is returned from then on.</details>

# %% [markdown] nbgrader={"grade": false, "grade_id": "merge_duplicates-conditions", "locked": true, "schema_version": 3, "solution": false, "task": false}
# "The same" has its traps, and the next cell shows three. Even when two nodes are the same, keep both if
#
# - the node draws, or has another effect (`effects_of`);
# - memory was written between the two. You may be careful: after *any* write, forget all that you have seen;
# - a mode was switched between them (`effects_of(node).context`: gradients, autocast), or something unknown ran
#   (`opaque`). Forget all then, too. An assertion or a draw changes no value: keep what you have seen;
# - one of the two results is written later. `Storages(graph).written(node)` knows, views included;
# - both are returned. `Storages(graph).returned` is the set of nodes whose memory the caller gets. It's cautious:
#   without shapes, `a + b` might join two lists, and then it hands on `a` and `b` themselves.
#
# **Prediction.** How many entries will the dictionary `seen` in the next cell have?


# %% tags=["nbval-check-output", "not-graded"] nbgrader={"grade": false, "grade_id": "merge_duplicates-look", "locked": true, "schema_version": 3, "solution": false, "task": false}
seen = {}
for number, text in ((1, "one"), (1.0, "one point nought"), (True, "true")):
    seen[number] = text
print(seen)
print(0.0 == -0.0, repr(0.0) == repr(-0.0))
print(torch.tensor([1]).add(1).dtype, torch.tensor([1]).add(1.0).dtype)


# %% nbgrader={"grade": false, "grade_id": "merge_duplicates-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def key_of(node: torch.fx.Node, stand_in: dict[torch.fx.Node, torch.fx.Node]):
    """A key that is equal for nodes that apply the same function to the same values; `stand_in` as found so far."""

    ### BEGIN SOLUTION
    def key(value):
        if isinstance(value, torch.fx.Node):
            return stand_in.get(value, value)
        if isinstance(value, slice):
            return slice, key([value.start, value.stop, value.step])
        if isinstance(value, (list, tuple)):
            return isinstance(value, list), *[key(item) for item in value]  # x[[0, 1]] is not x[0, 1]
        if isinstance(value, dict):
            return tuple((name, key(value[name])) for name in sorted(value))
        return type(value), repr(value)

    return node.op, node.target, key(node.args), key(node.kwargs)
    ### END SOLUTION


def find_duplicates(graph_module: torch.fx.GraphModule) -> dict[torch.fx.Node, torch.fx.Node]:
    """For each node that need not be computed again the earlier node that stands in for it. Changes nothing."""
    ### BEGIN SOLUTION
    storages, stand_in, seen = Storages(graph_module.graph), {}, {}
    returned = set(storages.returned)
    for node in graph_module.graph.nodes:
        effects = effects_of(node)
        if effects.writes or effects.context or effects.opaque:
            seen.clear()  # what was computed before the write, or in the other mode, is another value now
        if not node.op.startswith("call") or effects.observable or storages.written(node):
            continue
        first = seen.setdefault(key_of(node, stand_in), node)
        if first is node or (first in returned and node in returned):
            continue
        stand_in[node] = first
        if node in returned:
            returned.add(first)
    return stand_in
    ### END SOLUTION


def merge_duplicates(graph_module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Compute once what is computed twice."""
    ### BEGIN SOLUTION
    for node, first in find_duplicates(graph_module).items():
        node.replace_all_uses_with(first)
        graph_module.graph.erase_node(node)
    graph_module.graph.lint()
    graph_module.recompile()
    return graph_module
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "merge_duplicates", "locked": true, "points": 18, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.day2.merge_duplicates(find_duplicates, merge_duplicates)

# %% [markdown] nbgrader={"grade": false, "grade_id": "fold_constants-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 5. Compute beforehand what never changes
#
# *18 minutes, medium.* An operation that reads nothing but weights gives the same value at every call. So compute it
# once, store the result as a buffer, and let the graph read that: **constant folding**.
#
# Write `fold_constants(graph_module)`. Whatever reads only constants is constant: chains of operations, and modules in
# evaluation. Some things only look constant. Leave these:
#
# - what draws, or has another effect;
# - a buffer or a result that the graph writes (`Storages(graph).written(node)`);
# - a parameter (frozen or not) or a module, if the graph module is in training (`graph_module.training`);
# - a returned value (`Storages(graph).returned`), because the caller would get the stored tensor itself. You may fold
#   what's computed from it. But a *weight* that's returned isn't constant: the caller may write into it;
# - what comes after a switch of the mode, or after something unknown (`effects_of(node).context`, `opaque`).
#
# <details><summary>Hint 1: a question</summary>You walk along the graph with a dictionary from node to known value. What must hold for a node to get into it?</details>
# <details><summary>Hint 2: the idea</summary>Walk once to fill the dictionary. Walk again, from the back: each known operation that somebody reads becomes a <code>get_attr</code> node of a buffer with a name of its own, and is erased.</details>
# <details><summary>Hint 3: the shape</summary><code>torch.fx.node.map_arg((node.args, node.kwargs), values.__getitem__)</code> puts values in the place of nodes; <code>torch.fx.Interpreter(graph_module).fetch_attr(path)</code> reads an attribute. For the second walk you need <code>register_buffer</code>, <code>graph.get_attr(name)</code>, and the steps of every rewrite. Which values fit into no buffer?</details>

# %% [markdown] nbgrader={"grade": false, "grade_id": "fold_constants-traps", "locked": true, "schema_version": 3, "solution": false, "task": false}
# A constant is a buffer, with no gradients attached. Compute it under `torch.no_grad()`. An operation without any
# inputs, such as `torch.ones(4)`, you may fold or leave.
#
# Watch out for two traps. The model may already have a buffer or a parameter with the name that you choose. And a
# value may not be a tensor: you can compute with `w.size(0)`, but it fits in no buffer, so its node may stay,
# and so may what reads it.
#
# **Prediction.** The cell below folds by hand something that is returned, and calls the result twice. What will it
# print?


# %% tags=["nbval-check-output", "not-graded"] nbgrader={"grade": false, "grade_id": "fold_constants-look", "locked": true, "schema_version": 3, "solution": false, "task": false}
class HandFolded(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("ones", torch.ones(2))

    def forward(self):
        return self.ones


hand_folded = HandFolded()
first = hand_folded()
first.mul_(5)
print("second call:", hand_folded().tolist())


# %% nbgrader={"grade": false, "grade_id": "fold_constants-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def is_constant(node: torch.fx.Node, graph_module: torch.fx.GraphModule, storages: Storages, values: dict) -> bool:
    """Whether a node's value is the same at every call. `values` holds those of the constants before it."""
    ### BEGIN SOLUTION
    if node.op == "get_attr":
        value = torch.fx.Interpreter(graph_module).fetch_attr(node.target)
        will_change = graph_module.training and isinstance(value, nn.Parameter)
        return not (will_change or storages.written(node) or node in storages.returned)
    if not node.op.startswith("call") or not node.all_input_nodes:
        return False
    if node.op == "call_module" and graph_module.training:
        return False
    if effects_of(node).observable or storages.written(node) or node in storages.returned:
        return False
    return all(source in values for source in node.all_input_nodes)
    ### END SOLUTION


@torch.no_grad()
def fold_constants(graph_module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Store the values of all operations that are constant, and read them."""
    ### BEGIN SOLUTION
    graph = graph_module.graph
    storages, values = Storages(graph), {}
    interpreter = torch.fx.Interpreter(graph_module)
    for node in graph.nodes:
        if effects_of(node).context or effects_of(node).opaque:
            break  # what comes now runs in another mode, or after nobody knows what
        if is_constant(node, graph_module, storages, values):
            interpreter.env = dict(values)
            values[node] = interpreter.run_node(node)
    for node in reversed(list(values)):
        is_tensor = isinstance(values[node], torch.Tensor)
        if node.op == "get_attr" or (node.users and not is_tensor):  # a size, say, fits in no buffer
            continue
        if node.users:
            name = f"{node.name}_folded"
            while hasattr(graph_module, name):  # the model may have a buffer of this name
                name += "_"
            graph_module.register_buffer(name, values[node].detach())
            with graph.inserting_before(node):
                node.replace_all_uses_with(graph.get_attr(name))
        graph.erase_node(node)
    graph.lint()
    graph_module.recompile()
    return graph_module
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "fold_constants", "locked": true, "points": 12, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.day2.fold_constants(fold_constants)

# %% [markdown] nbgrader={"grade": false, "grade_id": "fold_batchnorm-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 6. Fold a BatchNorm into the convolution before it
#
# *22 minutes, medium.* A BatchNorm in evaluation is a scale and a shift. The convolution before it can do both and
# save a pass. For channel $c$ it computes
#
# $$n_c = \gamma_c \cdot \frac{h_c - \mu_c}{\sqrt{\sigma^2_c + \varepsilon}} + \beta_c ,\qquad\text{with } h_c = w_c * x + b_c$$
#
# from the convolution before it ($*$). Take a pencil: which $w'_c$ and $b'_c$ make $w'_c * x + b'_c = n_c$?
#
# 1. `folded_weights(...)` returns the new weight and bias, in the old dtype. A missing `bias` or `beta` counts as 0, a
#    missing `gamma` as 1.
# 2. `fold_batchnorm(graph_module)` replaces each pair `nn.BatchNorm2d(nn.Conv2d(x))` by one new convolution that
#    reads and pads as the old one did. Store its weights with no gradients attached. Change neither the old one nor
#    its block. Leave a pair alone if the BatchNorm trains or lacks running statistics, or if somebody else reads the
#    convolution's result. A convolution that's called twice you may fold or leave.
#
# <details><summary>Hint 1: a question</summary>Call γ/√(σ²+ε) the scale s. What is s·(w*x + b − μ) + β, sorted into a part with x and a part without?</details>
# <details><summary>Hint 2: the idea</summary>Multiply the weight by the scale, one number for each <em>output</em> channel; shift and scale the bias. In the graph, start from the BatchNorm and look at its argument.</details>
# <details><summary>Hint 3: the shape</summary><code>copy.deepcopy(conv)</code> gives you a convolution that you may change. Give it new <code>nn.Parameter</code>s, add it to the graph module under a free name, and call it with everything that the old one was called with. Think about where the new node has to stand. Then the last steps of every rewrite, for two nodes.</details>


# %% tags=["not-graded"] nbgrader={"grade": false, "grade_id": "fold_batchnorm-look", "locked": true, "schema_version": 3, "solution": false, "task": false}
torch.manual_seed(0)
conv, norm = nn.Conv2d(3, 8, 3, groups=1), nn.BatchNorm2d(8)
print("weight", tuple(conv.weight.shape), "bias", tuple(conv.bias.shape))
print("mean", tuple(norm.running_mean.shape), "gamma", tuple(norm.weight.shape), "eps", norm.eps)
pair = torch.fx.symbolic_trace(nn.Sequential(conv, norm).eval())
for node in pair.graph.nodes:
    if node.op == "call_module":
        print(node.name, "reads", node.args[0], "and calls", pair.get_submodule(node.target))


# %% nbgrader={"grade": false, "grade_id": "fold_batchnorm-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
import copy


def folded_weights(
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    mean: torch.Tensor,
    variance: torch.Tensor,
    gamma: torch.Tensor | None,
    beta: torch.Tensor | None,
    eps: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Weight (out, in / groups, height, width) and bias (out,) of a convolution that normalises its own result."""
    ### BEGIN SOLUTION
    scale = 1 / (variance + eps).sqrt()
    if gamma is not None:
        scale = scale * gamma
    shifted = -mean if bias is None else bias - mean
    new_bias = shifted * scale
    if beta is not None:
        new_bias = new_bias + beta
    return weight * scale.reshape(-1, 1, 1, 1), new_bias
    ### END SOLUTION


def fold_batchnorm(graph_module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """One convolution in the place of each convolution with a BatchNorm behind it, where that is legal."""
    ### BEGIN SOLUTION
    graph = graph_module.graph

    def module_at(node):
        return graph_module.get_submodule(node.target) if node.op == "call_module" else None

    for node in list(graph.nodes):
        norm = module_at(node)
        if type(norm) is not nn.BatchNorm2d or norm.training or norm.running_mean is None:
            continue
        (source,) = node.all_input_nodes
        conv = module_at(source)
        if type(conv) is not nn.Conv2d or len(source.users) > 1:
            continue
        folded = copy.deepcopy(conv)
        weight, bias = folded_weights(
            conv.weight, conv.bias, norm.running_mean, norm.running_var, norm.weight, norm.bias, norm.eps
        )
        folded.weight, folded.bias = nn.Parameter(weight.detach()), nn.Parameter(bias.detach())
        name = f"{node.name}_folded"
        while hasattr(graph_module, name):  # the model may have a module of this name
            name += "_"
        graph_module.add_submodule(name, folded)
        with graph.inserting_before(source):  # not before `node`: the input may be written in between
            new = graph.call_module(name, source.args, source.kwargs)
        node.replace_all_uses_with(new)
        graph.erase_node(node)
        graph.erase_node(source)
    graph.lint()
    graph_module.recompile()
    return graph_module
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "fold_batchnorm", "locked": true, "points": 15, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.day2.fold_batchnorm(folded_weights, fold_batchnorm)

# %% [markdown] nbgrader={"grade": false, "grade_id": "write_a_pass-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 7. Make it a pass
#
# *15 minutes, medium.* A function that rewrites one graph is a start. A **pass** goes further: people ask for it by
# name, it runs on any model, says what it did and what it refused, and gets verified. For that, it works in two steps.
# `analyze` finds all places and leaves the graph alone. `transform` takes one place, through an **editor** that logs
# each change. Verification may leave one out, so each one has to work by itself.
#
# Make your Task 4 a pass: a class `MergePass`, registered under the name `my_merging`.
#
# - `analyze(self, editor)` returns a new `Analysis`. It has one `Opportunity(node, stand_in)` for each entry of
#   `find_duplicates(editor.graph_module)`, and a refusal for each node that draws (and for no other), with a reason of
#   at least three words.
# - `transform(self, editor, opportunity)` takes the one opportunity that it's given, with `editor.replace(node,
#   stand_in)`.
#
# <details><summary>Hint 1: a question</summary>Which of the two steps knows the answer of Task 4, and which one needs only a pair?</details>
# <details><summary>Hint 2: the idea</summary>An <code>Opportunity</code> carries what <code>transform</code> needs: <code>opportunity.node</code> and <code>opportunity.data</code>. An <code>Analysis()</code> has a list <code>opportunities</code> and a method <code>refuse(node, reason)</code>.</details>
# <details><summary>Hint 3: the shape</summary>In <code>analyze</code>, two loops: one over the entries of the dictionary, one over the nodes of the graph, where <code>effects_of(node).random</code> decides. Don't forget to return the analysis. In <code>transform</code>, one line.</details>


# %% nbgrader={"grade": false, "grade_id": "write_a_pass-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
from fxopt_core.passes import Analysis, GraphEditor, Opportunity, OptimizationPass, register_pass


@register_pass("my_merging")
class MergePass(OptimizationPass):
    """Two nodes that apply the same function to the same values become one. Exact to the last bit."""

    def analyze(self, editor: GraphEditor) -> Analysis:
        """Every duplicate as an opportunity, every draw as a refusal."""
        ### BEGIN SOLUTION
        analysis = Analysis()
        for node, first in find_duplicates(editor.graph_module).items():
            analysis.opportunities.append(Opportunity(node, first))
        for node in editor.graph.nodes:
            if effects_of(node).random:
                analysis.refuse(node, "it draws from the random stream: two draws are two values")
        return analysis
        ### END SOLUTION

    def transform(self, editor: GraphEditor, opportunity: Opportunity) -> None:
        """Let the stand-in take the place of one duplicate."""
        ### BEGIN SOLUTION
        editor.replace(opportunity.node, opportunity.data)
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "write_a_pass", "locked": true, "points": 12, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.day2.write_a_pass(MergePass)

# %% [markdown] nbgrader={"grade": false, "grade_id": "write_a_pass-use-text", "locked": true, "schema_version": 3, "solution": false, "task": false}
# Now watch your pass work on a network full of waste, next to the course's own constant folding and dead-code
# elimination. The result is verified against the original on ordinary and nasty inputs.

# %% tags=["not-graded"] nbgrader={"grade": false, "grade_id": "write_a_pass-use", "locked": true, "schema_version": 3, "solution": false, "task": false}
from IPython.display import display

from fxopt_core.optimizer import GraphOptimizer
from fxopt_workbench import zoo
from fxopt_workbench.structure.diff import diff_graphs

wasteful = zoo.build("redundant")
wasteful.model.requires_grad_(False)  # as it is deployed: only values count, not gradients
try:
    optimized = GraphOptimizer(wasteful.model, wasteful.example_inputs).optimize(
        ["my_merging", "constant_folding", "dead_code"]
    )
    print(optimized.report)
    graph = optimized.report.graphs[0]
    change = diff_graphs(graph.before, graph.result.graph_module)
    display(draw(graph.before, title="Before", highlight=change.marked_before))
    display(draw(graph.result.graph_module, title="After", highlight=change.marked_after))
except NotImplementedError:
    print("not yet written")

# %% [markdown] nbgrader={"grade": false, "grade_id": "fuse_linear_relu-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 8. One operator for two *(stretch)*
#
# *20 minutes, medium, stretch.* A ReLU after a linear layer reads the whole result and writes it again. PyTorch has an
# operator that does both at once:
#
# ```python
# torch.ops.aten._addmm_activation.default(bias, x, weight.t())    # relu(x @ weight.t() + bias), for a matrix x
# ```
#
# Write `fuse_linear_relu(graph_module, example_inputs)`. Each ReLU (`torch.relu` or `nn.ReLU`) that reads an
# `nn.Linear` with bias becomes one such node. Leave alone
#
# - a layer whose result somebody else reads: the value before the ReLU would be gone;
# - an input that isn't a matrix. To learn the dimensions, run a copy of the graph on the example inputs. The graph
#   itself must not change when you look;
# - any other activation.
#
# Other spellings of a ReLU (`F.relu`, `h.relu()`, in place) you may fuse or leave. The new operator reads the layer's
# own parameters, not copies. It stands where the layer stood, and it works for any batch size.
#
# <details><summary>Hint 1: a question</summary>What do you learn from the example inputs that holds for all inputs, and what holds for these alone?</details>
# <details><summary>Hint 2: the idea</summary><code>torch.fx.passes.shape_prop.ShapeProp</code> notes the shape of each value in <code>node.meta["tensor_meta"]</code>. Weight and bias of a layer at the path <code>p</code> are the attributes <code>p.weight</code> and <code>p.bias</code>.</details>
# <details><summary>Hint 3: the shape</summary>Start from the ReLU and look at what it reads. After the conditions, four new nodes: two <code>get_attr</code>, one <code>call_method</code> and the operator. Then replace, and erase two. Where do the new nodes have to stand? A new node knows no shape, so the next ReLU finds nothing in its <code>meta</code>: keep what you have learnt elsewhere.</details>


# %% tags=["not-graded"] nbgrader={"grade": false, "grade_id": "fuse_linear_relu-look", "locked": true, "schema_version": 3, "solution": false, "task": false}
layer, rows = nn.Linear(4, 3), torch.randn(2, 4)
fused = torch.ops.aten._addmm_activation.default(layer.bias, rows, layer.weight.t())
print("largest difference from the two operations:", (fused - torch.relu(layer(rows))).abs().max().item())


# %% nbgrader={"grade": false, "grade_id": "fuse_linear_relu-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
from torch.fx.passes.shape_prop import ShapeProp


def fuse_linear_relu(graph_module: torch.fx.GraphModule, example_inputs: list[torch.Tensor]) -> torch.fx.GraphModule:
    """One operator in the place of each linear layer with a ReLU behind it, where that is legal."""
    ### BEGIN SOLUTION
    looked_at = copy.deepcopy(graph_module)  # a run may write buffers
    ShapeProp(looked_at).propagate(*example_inputs)
    values = {node.name: node.meta.get("tensor_meta") for node in looked_at.graph.nodes}
    graph = graph_module.graph

    def module_at(node):
        return graph_module.get_submodule(node.target) if node.op == "call_module" else None

    for node in list(graph.nodes):
        if node.target is not torch.relu and type(module_at(node)) is not nn.ReLU:
            continue
        (source,) = node.all_input_nodes
        layer = module_at(source)
        if type(layer) is not nn.Linear or layer.bias is None or len(source.users) > 1:
            continue
        if len(values[source.name].shape) != 2:  # the layer's result has as many dimensions as its input
            continue
        with graph.inserting_before(source):  # not before `node`: the input may be written in between
            weight = graph.get_attr(f"{source.target}.weight")
            bias = graph.get_attr(f"{source.target}.bias")
            transposed = graph.call_method("t", (weight,))
            rows = source.all_input_nodes[0]
            fused = graph.call_function(torch.ops.aten._addmm_activation.default, (bias, rows, transposed))
        node.replace_all_uses_with(fused)
        graph.erase_node(node)
        graph.erase_node(source)
    graph.lint()
    graph_module.recompile()
    return graph_module
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "fuse_linear_relu", "locked": true, "points": 5, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.day2.fuse_linear_relu(fuse_linear_relu)

# %% [markdown] nbgrader={"grade": false, "grade_id": "recompute-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 9. Meet a memory budget *(stretch)*
#
# *40 minutes, hard, stretch.* You train a chain of blocks, and memory runs out. Block $i$ **keeps** `keeps[i]` bytes
# for its backward pass; `inputs[i]` of them are its input. A block that you **recompute** holds only its input. When
# the backward pass comes to it, it runs again, for `costs[i]`, and keeps everything until its gradients are done. The
# backward pass takes one block at a time, last to first, and frees what it's done with.
#
# 1. `peak_bytes(keeps, inputs, recomputed)`: the most bytes held at any moment.
# 2. `choose_recomputed(keeps, inputs, costs, budget)`: a cheapest set of blocks (numbered from 0) with a peak within
#    the budget, or a `ValueError`. Up to ten blocks.
# 3. `run_with_recomputation(blocks, x, recomputed)`: runs the blocks in order, and those in `recomputed` once more in
#    the backward pass. Gradients and random numbers are as without recomputation, dropout included.
#
# <details><summary>Hint 1: a question</summary>The backward pass is at block i. What do the blocks before it hold, what do the blocks behind it hold, and what is there of block i itself?</details>
# <details><summary>Hint 2: the idea</summary>The peak is the largest over some moments: the end of the forward pass, and each block's turn. Ten blocks have 1024 sets, so you can try them all. For the run, read about <code>torch.utils.checkpoint.checkpoint</code>.</details>
# <details><summary>Hint 3: the shape</summary>Make a list <code>held</code> of what each block holds between its two turns; block i's turn costs what's held before it plus all that it keeps. For the choice, <code>itertools.combinations</code> of each size, a filter, and a <code>min</code> with a key. For the run, one loop with an <code>if</code>, and <code>use_reentrant=False</code>.</details>

# %% [markdown] nbgrader={"grade": false, "grade_id": "recompute-look-text", "locked": true, "schema_version": 3, "solution": false, "task": false}
# The next cell draws three blocks at each moment of a step. The middle one is recomputed.
#
# **Prediction.** Can it help to recompute the *last* block?


# %% tags=["nbval-check-output", "not-graded"] nbgrader={"grade": false, "grade_id": "recompute-look", "locked": true, "schema_version": 3, "solution": false, "task": false}
keeps, inputs, recomputed = [6, 9, 5], [2, 2, 2], {1}
held = [inputs[i] if i in recomputed else keeps[i] for i in range(3)]
print("end of the forward pass ", "".join(str(i) * held[i] for i in range(3)))
for i in reversed(range(3)):
    present = "".join(str(j) * held[j] for j in range(i)) + str(i) * keeps[i]
    print(f"backward pass at block {i}", present, "← computed again" if i in recomputed else "")

# %% [markdown] nbgrader={"grade": false, "grade_id": "recompute-look-answer", "locked": true, "schema_version": 3, "solution": false, "task": false}
# <details><summary>Can it help to recompute the last block?</summary>
#
# No. Less is held when the forward pass ends, but the very next moment is the last block's own turn. It keeps
# everything again, while all the blocks before it still hold theirs. The peak is the same as if you had never
# recomputed it, and you have paid for a second run. Recompute a block only if something *else* happens between its two
# runs.
# </details>


# %% nbgrader={"grade": false, "grade_id": "recompute-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
from itertools import combinations

from torch.utils.checkpoint import checkpoint


def peak_bytes(keeps: list[int], inputs: list[int], recomputed: set[int]) -> int:
    """The most bytes that are held at any time of a training step."""
    ### BEGIN SOLUTION
    held = [inputs[i] if i in recomputed else keeps[i] for i in range(len(keeps))]
    return max(sum(held), *(sum(held[:i]) + keeps[i] for i in range(len(keeps))))
    ### END SOLUTION


def choose_recomputed(keeps: list[int], inputs: list[int], costs: list[int], budget: int) -> set[int]:
    """The cheapest set of blocks to compute again with a peak within the budget; `ValueError` if there is none."""
    ### BEGIN SOLUTION
    sets = (set(chosen) for size in range(len(keeps) + 1) for chosen in combinations(range(len(keeps)), size))
    fitting = [chosen for chosen in sets if peak_bytes(keeps, inputs, chosen) <= budget]
    if not fitting:
        raise ValueError(f"no choice of blocks fits into {budget} bytes")
    return min(fitting, key=lambda chosen: sum(costs[i] for i in chosen))
    ### END SOLUTION


def run_with_recomputation(blocks: list[nn.Module], x: torch.Tensor, recomputed: set[int]) -> torch.Tensor:
    """The result of the blocks one after the other; those in `recomputed` run again in the backward pass."""
    ### BEGIN SOLUTION
    for i, block in enumerate(blocks):
        x = checkpoint(block, x, use_reentrant=False) if i in recomputed else block(x)
    return x
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "recompute", "locked": true, "points": 8, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.day2.recompute(peak_bytes, choose_recomputed, run_with_recomputation)

# %% [markdown] nbgrader={"grade": false, "grade_id": "recompute-use-text", "locked": true, "schema_version": 3, "solution": false, "task": false}
# Now see your choice at work: what PyTorch really keeps at the end of the forward pass, for a chain of blocks of
# different widths, without recomputation and with yours.

# %% tags=["not-graded"] nbgrader={"grade": false, "grade_id": "recompute-use", "locked": true, "schema_version": 3, "solution": false, "task": false}
from fxopt_core.devices import choose_device

device = choose_device()


def kept_bytes(run):
    """Bytes that autograd keeps while `run()` computes a result, weights apart, each piece of memory once."""
    kept = {}

    def note(tensor):
        if not isinstance(tensor, nn.Parameter) and not isinstance(tensor._base, nn.Parameter):
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        result = run()
    del result
    return sum(kept.values())


torch.manual_seed(0)
widths = [32, 256, 64, 512, 32]
blocks = [
    nn.Sequential(nn.Linear(32, width), nn.Tanh(), nn.Linear(width, 32), nn.Tanh()).to(device) for width in widths
]
batch = torch.randn(64, 32, device=device)
# In units of one row of the batch: a block keeps its input, the wide result, and its own result, which it hands on.
keeps, inputs, costs = [32 + width + 32 for width in widths], [32] * 5, [2 * 32 * width for width in widths]
try:
    budget = int(0.7 * sum(keeps))
    chosen = choose_recomputed(keeps, inputs, costs, budget)
    for name, again in (("nothing computed again", set()), (f"blocks {sorted(chosen)} computed again", chosen)):
        kept = kept_bytes(lambda again=again: run_with_recomputation(blocks, batch, again))
        print(f"{name:28} {kept / 1024:6.0f} KiB kept, by the model at most {peak_bytes(keeps, inputs, again) / 4:.0f}")
except NotImplementedError:
    print("not yet written")

# %% [markdown] nbgrader={"grade": false, "grade_id": "ex02-submit-text", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Submit
#
# Save the notebook (Ctrl+S or ⌘S), then take the `#` away and run this cell. It says how many points you have and
# where the feedback page lies.

# %%
# submit("ex_02")
