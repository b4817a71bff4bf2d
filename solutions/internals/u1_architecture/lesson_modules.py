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

# %% [markdown]
# # Unit 1, second lesson: what a module is
#
# *About 50 minutes. You need the first lesson of this unit; a C++ compiler isn't needed.*
#
# You write `self.weight = Parameter(...)`, and from then on the optimizer trains it, `to` moves it, and a checkpoint
# holds it. You told none of them. A plain assignment did it, inside a [**module**](../Glossary.md#module), and nothing
# else in Python works like that.

# %% [markdown]
# There's no C++ to read this time. It's all plain Python: three dictionaries and a few special methods. By the end of
# this lesson you'll know what each of them is for, and in the exercise you write your own.
#
# Why bother? Because a weight that isn't trained, or isn't saved, raises no error. You notice weeks later, when the
# results disappoint. Behind such a bug there's often an assignment that went somewhere else than you thought.

# %% [markdown]
# ## Why not just attributes?
#
# *5 minutes.* Suppose there were no `nn.Module`. A layer would be an object with tensors in its attributes. Whoever
# trains, moves or saves it must find them, so let's find them the way Python offers: look through the attributes.

# %%
# %matplotlib inline
import copy

import torch
from matplotlib import pyplot
from torch import nn

from fxopt_workbench.torch_sources import source


class PlainLayer:
    def __init__(self):
        self.weight = torch.ones(2, 2, requires_grad=True)
        self.mean = torch.zeros(2)  # not to be trained, but to be saved
        self.cache = torch.zeros(2)  # neither


for name, value in vars(PlainLayer()).items():
    print(f"{name:8} {type(value).__name__}, requires_grad {value.requires_grad}")

# %% [markdown]
# You can tell the weight from the rest. But which of the other two belongs into a checkpoint? The tensors can't say.
# It's the layer's author who knows, so the author has to *declare* it, and there has to be a place to look it up.
#
# **Prediction.** Three ways to keep two linear layers, each with a weight and a bias. How many
# [parameters](../Glossary.md#parameter) will each module find?


# %% tags=["nbval-check-output"]
class InAttributes(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(2, 2), nn.Linear(2, 2)


class InAList(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(2, 2), nn.Linear(2, 2)]


class InAModuleList(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])


found = {kind.__name__: len(list(kind().parameters())) for kind in (InAttributes, InAList, InAModuleList)}
print(found)

# %% tags=["claim"]
# A list hides its layers: nothing in it is found, and nobody says so.
assert found == {"InAttributes": 4, "InAList": 0, "InAModuleList": 4}

# %% [markdown]
# A list hides its layers, and nobody says so: the model runs, and they never learn. So it isn't the *tensor* that counts.
# It's the assignment `self.name = value`, and what kind of value that is. A list is neither a parameter nor a module.

# %% [markdown]
# ## Three dictionaries
#
# *10 minutes.* Here's everything that the constructor does. Look for the three names that hold the model:

# %%
source("torch/nn/modules/module.py", "Module.__init__", most=50)

# %% [markdown]
# `_parameters`, `_buffers` and `_modules`. The others are hooks, and a set that you'll meet soon.
#
# **Prediction.** `net.weight` works. Is `"weight"` in `net.__dict__`, where Python keeps attributes?


# %% tags=["nbval-check-output"]
class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))
        self.register_buffer("mean", torch.zeros(2))
        self.inner = nn.Identity()
        self.cache = torch.zeros(2)
        self.size = 2


net = Scale()
for place in ("_parameters", "_buffers", "_modules"):
    print(f"{place:12}", list(vars(net)[place]))
print("plain       ", [name for name in vars(net) if name in ("weight", "mean", "inner", "cache", "size")])

# %% [markdown]
# It isn't. The assignment went through `__setattr__`, which sorted it by the kind of its value. When you read
# `net.weight`, Python looks into `__dict__` first, finds nothing, and as a last resort calls this:

# %%
source("torch/nn/modules/module.py", "Module.__getattr__")

# %% [markdown]
# *As a last resort* is worth remembering. If a plain attribute and a parameter had the same name, you'd always read the
# plain one, and train the other. So `__setattr__` begins by taking the name out of everywhere else:

# %%
source("torch/nn/modules/module.py", "Module.__setattr__", most=34)

# %% [markdown]
# **Prediction.** Four assignments to one name. Which of them raises?


# %% tags=["nbval-check-output"]
def attempt(words, action):
    try:
        action()
    except (TypeError, AttributeError, KeyError) as error:
        print(f"{words:40} {type(error).__name__}: {error}")
    else:
        print(f"{words:40} fine; {[name for name, _ in net.named_parameters()]}")


attempt("a parameter over a plain attribute", lambda: setattr(net, "size", nn.Parameter(torch.ones(3))))
attempt("None over a parameter", lambda: setattr(net, "size", None))
attempt("a tensor over that None", lambda: setattr(net, "size", torch.ones(3)))
attempt("a parameter over that None", lambda: setattr(net, "size", nn.Parameter(torch.ones(1))))

# %% [markdown]
# The third one. `None` doesn't remove a parameter: it leaves an entry that says *a parameter may be here*. And the name
# of a parameter takes nothing but parameters. That's the error *cannot assign 'torch.FloatTensor' as parameter*, and
# it's there to protect you: a plain tensor in that place would never be trained again.
#
# One more, which everybody meets once. The dictionaries are made in `Module.__init__`, so before that call there's
# nowhere to put a parameter:


# %% tags=["nbval-check-output"]
class TooEarly(nn.Module):
    def __init__(self):
        self.weight = nn.Parameter(torch.ones(2))
        super().__init__()


attempt("before super().__init__()", TooEarly)

# %% [markdown]
# ## One tree, several walks
#
# *10 minutes.* A module in `_modules` has three dictionaries of its own, so modules form a tree. Everything that a
# model does as a whole is a walk through it. This is the one that the others are built on:

# %%
source("torch/nn/modules/module.py", "Module.named_modules", most=60)

# %% [markdown]
# Below the long docstring it's a dozen lines: give yourself, then ask each child to do the same with a longer prefix.
# `memo` holds what has been given already. Here's a tree whose `decode` shares its weight with `embed`, as language
# models do:


# %% tags=["nbval-check-output"]
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(10, 4)
        self.blocks = nn.Sequential(Block(), Block())
        self.decode = nn.Linear(4, 10, bias=False)
        self.decode.weight = self.embed.weight


model = Model()
print("children:", [name for name, _ in model.named_children()])
for path, module in model.named_modules():
    depth = path.count(".") + bool(path)
    own = [name for place in (module._parameters, module._buffers) for name, one in place.items() if one is not None]
    print("    " * depth + (path.rpartition(".")[2] or "the model"), type(module).__name__, *own)

# %% [markdown]
# `named_children` looks one level deep, `named_modules` at every level, itself included, under the empty name.
#
# **Prediction.** `embed.weight` and `decode.weight` are the same tensor. How often is it in `named_parameters()`, and
# how often in `state_dict()`?

# %% tags=["nbval-check-output"]
shared = model.embed.weight
named = [path for path, one in model.named_parameters() if one is shared]
saved = [path for path, one in model.state_dict(keep_vars=True).items() if one is shared]
print("named:", named)
print("saved:", saved)
print("named, repeats wanted:", [p for p, one in model.named_parameters(remove_duplicate=False) if one is shared])

# %% tags=["claim"]
# A shared tensor is named once, by its first path, and saved under each of its paths.
assert named == ["embed.weight"]
assert saved == ["embed.weight", "decode.weight"]

# %% [markdown]
# Once by its first path. But the [**state dict**](../Glossary.md#state-dict) holds it under each of its paths. Both are
# right. An optimizer that got it twice would step on it twice. A checkpoint, on the other hand, doesn't know whether
# the model that loads it shares anything, so every name must be there.
#
# That's also why loading *copies into* the tensors. The optimizer holds the tensors themselves, so they must stay:

# %% tags=["nbval-check-output"]
before = model.decode.weight
state = {path: torch.zeros_like(one) for path, one in model.state_dict().items()}
print(model.load_state_dict(state))
print("the same tensor:", model.decode.weight is before, "with other numbers:", bool((before == 0).all()))

# %% [markdown]
# **Prediction.** The state lacks one name, has one that's unknown, and a tensor of the wrong shape. Loading fails.
# What's happened to the tensors that *did* fit?

# %% tags=["nbval-check-output"]
state = {path: torch.ones_like(one) for path, one in model.state_dict().items()}
state["blocks.0.linear.weight"] = torch.ones(4, 5)
state["blocks.0.linear.wieght"] = state.pop("blocks.1.linear.weight")
try:
    model.load_state_dict(state)
except RuntimeError as error:
    print(error)
print("embed.weight is now", model.embed.weight.unique().tolist())

# %% [markdown]
# They have been loaded. The error names every problem at once, which is kind, but it comes at the end. If you catch it
# and go on, half of your model is new and half is old.

# %% [markdown]
# ## Parameter or buffer?
#
# *10 minutes.* A [buffer](../Glossary.md#buffer) is state that needs no gradient: BatchNorm's running mean, a table of
# positions, a mask. It belongs to the model, but no optimizer may touch it. There are two calls to register something
# by name, and they are nearly twins:
#
# | | `register_parameter` | `register_buffer` |
# | --- | --- | --- |
# | takes | a `Parameter` or `None` | a tensor or `None` |
# | the same by assignment | `self.name = Parameter(…)` | only if the name is a buffer already |
# | gradient | asked for | not asked for |
# | optimizers | train it | never see it |
# | in the state | always | unless `persistent=False` |
# | for | what is learned | what is counted, measured, or computed once |
#
# A plain `self.name = tensor` registers *nothing*. That's on purpose: a layer may keep a result until the next call
# without growing its checkpoint.

# %% [markdown]
# **Prediction.** Six things that a module can own. For each, say before you run it: who finds it? Is it in
# `named_parameters`, in `named_buffers`, in the state? Does `to` convert it? The cell doesn't ask the documentation. It
# tries.


# %% tags=["nbval-check-output"]
class Owner(nn.Module):
    def __init__(self):
        super().__init__()
        self.parameter = nn.Parameter(torch.ones(2))
        self.register_parameter("empty", None)
        self.register_buffer("persistent", torch.ones(2))
        self.register_buffer("passing", torch.ones(2), persistent=False)
        self.register_buffer("counter", torch.tensor(0))
        self.plain = torch.ones(2)


owner = Owner()
halved = copy.deepcopy(owner).to(torch.float16)
walks = {
    "named_parameters": {name for name, _ in owner.named_parameters()},
    "named_buffers": {name for name, _ in owner.named_buffers()},
    "state_dict": set(owner.state_dict()),
    "to(…) converts": {
        name
        for name in ("parameter", "empty", "persistent", "passing", "counter", "plain")
        if getattr(halved, name) is not None and getattr(halved, name).dtype == torch.float16
    },
}
things = ("parameter", "empty", "persistent", "passing", "counter", "plain")
print(f"{'':12}" + "".join(f"{walk:18}" for walk in walks))
for thing in things:
    print(f"{thing:12}" + "".join(f"{'reaches it' if thing in names else '–':18}" for names in walks.values()))

# %%
figure, axes = pyplot.subplots(figsize=(7, 3), layout="constrained")
axes.imshow([[0.3 * (thing in names) for names in walks.values()] for thing in things], cmap="Blues", vmin=0, vmax=1)
for row, thing in enumerate(things):
    for column, names in enumerate(walks.values()):
        axes.text(column, row, "reaches it" if thing in names else "–", ha="center", va="center")
axes.set_xticks(range(len(walks)), walks)
axes.set_yticks(range(len(things)), things)
axes.set(title="What each walk reaches", aspect="auto")
print("The table above as a picture: a blue cell says that the walk reaches what is named on the left.")
pyplot.close(figure)
figure

# %% tags=["claim"]
# A plain tensor is reached by no walk; a counter of whole numbers is a buffer, and keeps its dtype.
assert not any("plain" in names for names in walks.values())
assert "counter" in walks["named_buffers"]
assert "counter" not in walks["to(…) converts"]

# %% [markdown]
# The last row is where bugs live: no walk reaches a plain tensor, `to` included. And the counter is a buffer, but it
# kept its dtype, because `to` converts floating point only; it would go along to another device.
#
# `to`, `half`, `cuda` and their kin are one function, called with every tensor of the first two dictionaries:

# %%
source("torch/nn/modules/module.py", "Module._apply", most=4)

# %% tags=["nbval-check-output"]
try:
    halved.plain @ halved.parameter
except RuntimeError as error:
    print(error)

# %% [markdown]
# If you've seen that message, or *expected all tensors to be on the same device*, look for a tensor that somebody
# assigned and didn't register.
#
# Two walks go over modules and not over tensors. `train` sets a flag on each, and `apply` calls a function with each:

# %% tags=["nbval-check-output"]
order = []
model.apply(lambda module: order.append(type(module).__name__))
print("apply:", " ".join(order))
model.eval()
print("in training mode:", [path for path, module in model.named_modules() if module.training])
asking = [one.requires_grad for one in model.parameters()]
print("asking for gradients:", sum(asking), "of", len(asking))

# %% [markdown]
# `apply` visits the children before their parent. `eval` sets a flag for layers such as dropout, and nothing else:
# every parameter still asks for its gradient.

# %% [markdown]
# ## `nn.Linear`, written again
#
# *5 minutes.* Now you can read a real layer. This is all of its constructor:

# %%
source("torch/nn/modules/linear.py", "Linear.__init__")

# %% [markdown]
# Two assignments. The only line that isn't obvious is the one for layers without a bias:
# `register_parameter("bias", None)`. It keeps the name, so that `forward` can read `self.bias` without asking first, and so that nobody can put a
# plain tensor there.
#
# Here's one of our own. Does it do the same?


# %% tags=["nbval-check-output"]
class Linear(nn.Module):
    def __init__(self, in_features, out_features, bias=True):
        super().__init__()
        bound = in_features**-0.5
        self.weight = nn.Parameter(torch.empty(out_features, in_features).uniform_(-bound, bound))
        if bias:
            self.bias = nn.Parameter(torch.empty(out_features).uniform_(-bound, bound))
        else:
            self.register_parameter("bias", None)

    def forward(self, x):
        product = x @ self.weight.T
        return product if self.bias is None else product + self.bias


torch.manual_seed(0)
mine, theirs = Linear(5, 3), nn.Linear(5, 3)
print("names:    ", list(mine.state_dict()) == list(theirs.state_dict()))
print("loading:  ", mine.load_state_dict(theirs.state_dict()))
x = torch.randn(7, 5)
for layer in (mine, theirs):
    layer(x).square().sum().backward()
print("outputs:  ", torch.allclose(mine(x), theirs(x), atol=1e-6))
print("gradients:", torch.allclose(mine.weight.grad, theirs.weight.grad, atol=1e-5))
print("no bias:  ", list(Linear(5, 3, bias=False).state_dict()), nn.Linear(5, 3, bias=False).bias)

# %% [markdown]
# A checkpoint of theirs fits ours, because the names are the same. Names *are* the format. Rename an attribute, and
# old checkpoints no longer load.

# %% [markdown]
# ## Conv, RNN and Transformer: the same mechanism
#
# *10 minutes.* Surely the big layers do something cleverer? Look into their dictionaries.
#
# **Prediction.** Which of these owns no parameter itself, not one? And which holds empty entries?

# %% tags=["nbval-check-output"]
layers = {
    "Conv2d": nn.Conv2d(3, 4, 3),
    "BatchNorm2d": nn.BatchNorm2d(4),
    "LSTM": nn.LSTM(4, 3),
    "MultiheadAttention": nn.MultiheadAttention(4, 2),
    "TransformerEncoderLayer": nn.TransformerEncoderLayer(4, 2, 8),
}
for name, layer in layers.items():
    print(name)
    for place in ("_parameters", "_buffers", "_modules"):
        entries = [f"{entry} (empty)" if one is None else entry for entry, one in vars(layer)[place].items()]
        print(f"    {place:12} {', '.join(entries) or '–'}")

# %% [markdown]
# A transformer layer owns nothing but children. Attention keeps three empty entries for the case that queries, keys and
# values have different sizes. An LSTM doesn't know in advance how many weights it'll have, so it makes their names in a
# loop, and assigns with `setattr`. That goes through `__setattr__` like everything else.
#
# Is there any layer that leaves the path? Ask all of them which methods they replace:


# %%
def below(kind):
    for one in kind.__subclasses__():
        yield one
        yield from below(one)


kinds = {kind for kind in below(nn.Module) if kind.__module__.startswith("torch.nn.modules.")}
print(f"{len(kinds)} kinds of layers in torch.nn")
replaced = {}
for method in ("__setattr__", "__getattr__", "named_parameters", "register_parameter", "register_buffer", "train"):
    replaced[method] = sorted(kind.__name__ for kind in kinds if method in vars(kind))
    print(f"{method:20} replaced by {', '.join(replaced[method]) or 'none'}")

# %% tags=["claim"]
# Only the base class of RNNs replaces one of the methods that register and find.
assert sum(map(len, replaced.values())) == 1
assert replaced["__setattr__"] == ["RNNBase"]

# %%
source("torch/nn/modules/rnn.py", "RNNBase.__setattr__")

# %% [markdown]
# One, out of all of them: RNNs also keep a flat list of their weights for cuDNN, and have to bring it up to date when
# you assign a new one. And even there, the last line hands over to `Module`.
#
# So what differs between a convolution and a transformer? Only `forward`, and what it calls. Registration, moving,
# saving and loading are written once.

# %% [markdown]
# ## What to remember
#
# - `__setattr__` sorts an assignment by the kind of its value: `_parameters`, `_modules`, or a buffer's name.
#   Everything else is a plain attribute, which no walk reaches.
# - A name is in one place only. The name of a parameter takes parameters and `None`.
# - Walks name a shared tensor once. The state holds it under each path. Loading copies into the tensors that are there.
# - A **buffer** is state without a gradient. A persistent one is saved.
# - Layers differ in `forward`. Everything else is `nn.Module`.
#
# Now write it yourself: [exercise 11](ex_11_architecture.ipynb).

# %% [markdown]
# ## Where this comes from
#
# - PyTorch's own source, quoted above: `torch/nn/modules/module.py`, `linear.py` and `rnn.py`.
# - PyTorch documentation: [torch.nn.Module](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html), and
#   the note [Modules](https://docs.pytorch.org/docs/stable/notes/modules.html).
# - A. Paszke et al., *PyTorch: An Imperative Style, High-Performance Deep Learning Library*, NeurIPS 2019, section 4.
