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
# You write the rewrites that compilers live on, each small, each with the traps that real compilers fell into. The
# core takes about two hours; what goes beyond is marked as *stretch*.
#
# Every rewrite takes a `torch.fx.GraphModule` and returns one: the same, changed, or a new one. A check runs your
# function, draws the graph before and after, and says which trap you fell into. It tries visible cases only; `submit` at
# the end also tries hidden ones.
#
# You may use everything in `torch.fx`, `effects_of` and `Storages` from `fxopt_core.graphs`. The passes of `fxopt_core`
# are out of reach while grading.

# %% nbgrader={"grade": false, "grade_id": "ex02-setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import torch
from torch import nn

from autograder import check
from autograder.submit_cell import submit
from fxopt_core.graphs.aliases import Storages
from fxopt_core.graphs.effects import effects_of
from fxopt_core.visualize import draw

# %% [markdown] nbgrader={"grade": false, "grade_id": "walk_graph-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 1. Who reads what, and the longest way through
#
# *12 minutes: the first function 2, the second 10; easy.* Before you change a graph, ask it two questions.
#
# 1. **Which values are shared?** `shared_values(graph_module)` returns the names of the nodes that more than one node
#    reads, in the order of the graph. These are the values that a rewrite must not touch carelessly.
# 2. **What bounds the time?** Operations that do not wait for each other may run side by side; a chain in which each reads
#    the one before it cannot. `critical_path(graph_module)` returns the names of the operations (`call_function`,
#    `call_method`, `call_module`) on a longest chain, first to last. Where there are several longest ones, any will do.
#
# The cell below shows where a node keeps its readers.
#
# <details><summary>Hint 1: a question</summary>A node stands in the list after everything that it reads. If you know the longest chain that ends in each of its inputs, what is the longest that ends in it?</details>
# <details><summary>Hint 2: the idea</summary><code>node.users</code> is a dictionary whose keys are the readers; <code>node.all_input_nodes</code> lists what a node reads. One walk over the graph that fills a dictionary from node to chain.</details>
# <details><summary>Hint 3: the shape</summary><code>before = max((longest[source] for source in node.all_input_nodes), key=len, default=[])</code>, then <code>longest[node] = [*before, node.name]</code> where the node is an operation.</details>


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

# %% [markdown] nbgrader={"grade": false, "grade_id": "remove_dead_code-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 2. Remove what nobody needs
#
# *15 minutes, medium.* Code is **dead** when nobody can tell whether it ran. That is more than "nobody reads its value":
# a node may also write into a tensor, draw from the random stream, update running statistics or stop a wrong run.
#
# Write `remove_dead_code(graph_module)`. It removes every operation and every `get_attr` that is dead, keeps all inputs,
# and recompiles. `effects_of(node)` tells what a node does besides computing; the next cell prints it.
#
# **Prediction.** Which of the seven lines below may go? Two of them may.
#
# <details><summary>Hint 1: a question</summary>A node is dead. What about a node that only the dead one read? In which order do you meet both in one walk?</details>
# <details><summary>Hint 2: the idea</summary>Walk backwards over a copy of the list: a reader comes after what it reads. Erase what has no users and no observable effect.</details>
# <details><summary>Hint 3: the shape</summary><code>for node in reversed(list(graph.nodes))</code>, a condition on <code>node.op</code>, <code>node.users</code> and <code>effects_of(node).observable</code>, then <code>graph.erase_node(node)</code>; at the end <code>lint</code> and <code>recompile</code>.</details>


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
# *25 minutes, harder.* Two nodes that apply the same function to the same values give the same value: one of them can go.
# This is **common-subexpression elimination**. Write two functions, so that Task 7 can use the first alone:
#
# 1. `find_duplicates(graph_module)` changes nothing and returns a dictionary: node → the earlier node that can stand in
#    for it.
# 2. `merge_duplicates(graph_module)` lets every reader read the stand-in, erases the duplicates, recompiles and returns
#    the module.
#
# "The same" has its traps: see the next cell. And what is the same must still stay two nodes where
#
# - it draws, or has another effect (`effects_of`);
# - memory was written between the two (it is enough to be careful: after *any* write, forget all you have seen);
# - one of the two results is written later (`Storages(graph).written(node)` knows, views included);
# - both are returned (`Storages(graph).returned` is the set of nodes whose memory the caller gets).
#
# **Prediction.** How many entries will the dictionary `seen` in the next cell have?
#
# <details><summary>Hint 1: a question</summary>You meet a node. What would you have to know of all earlier nodes to tell at once whether one of them is the same?</details>
# <details><summary>Hint 2: the idea</summary>One walk with a dictionary from a <em>key</em> to the first node that has it. The key is made of what the node calls and of its arguments, where a merged node counts as its stand-in, and a literal as its type and its text.</details>
# <details><summary>Hint 3: the shape</summary>A recursive <code>key(value)</code> for nodes, lists, dictionaries (sorted!) and literals: <code>(type(value), repr(value))</code>. Then <code>first = seen.setdefault(key_of(node), node)</code>; if <code>first is node</code>, it is new. When you merge a returned node, its stand-in is returned from then on.</details>


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
        if isinstance(value, (list, tuple)):
            return tuple(key(item) for item in value)
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
        if effects.writes:
            seen.clear()  # what was read before the write is another value now
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

# %% [markdown] nbgrader={"grade": false, "grade_id": "ex02-submit-text", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Submit
#
# Save the notebook (Ctrl+S or ⌘S), then take the `#` away and run this cell. It says how many points you have and
# where the feedback page lies.

# %%
# submit("ex_02")
