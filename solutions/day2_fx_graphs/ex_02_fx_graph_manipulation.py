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
# You may use everything in `torch.fx`, and `effects_of` from `fxopt_core.graphs.effects`. The passes of `fxopt_core`
# are out of reach while grading.

# %% nbgrader={"grade": false, "grade_id": "ex02-setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import torch
from torch import nn

from autograder import check
from autograder.submit_cell import submit
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

# %% [markdown] nbgrader={"grade": false, "grade_id": "ex02-submit-text", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Submit
#
# Save the notebook (Ctrl+S or ⌘S), then take the `#` away and run this cell. It says how many points you have and
# where the feedback page lies.

# %%
# submit("ex_02")
