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
# # Day 4: transformers as graphs
#
# *About 95 minutes. You need Days 2 and 3.*
#
# So far, your graphs came from models that were made for teaching. A real model comes with a library around it:
# tokenizers, configurations, output classes, masks that the model builds as it goes, caches, and a dozen ways to write
# the same attention. All of it ends up in your graph, or stops you from capturing one.

# %% [markdown]
# Underneath there's surprisingly little: **one block, repeated**. If you can spot that block in a graph, whatever its
# nodes are called, you can work out what the model costs, make it faster, and notice at once when a capture has lost
# something.
#
# Today you'll follow a text from words to numbers to a graph. You'll take attention apart and put it back together, see
# what a mask and a cache do to a capture, and measure what compiling a transformer costs you and gains you. At the end
# you'll read two detectors with the same tools, and those aren't language models at all.

# %% [markdown]
# ## From words to numbers
#
# *10 minutes.* A model only reads numbers, so somebody has to turn your text into numbers first. A
# [tokenizer](../Glossary.md#tokenizer) cuts the text into pieces from a vocabulary and gives each piece a number. Where
# does the vocabulary come from? The tokenizer learns it from text. Here it learns from the docstrings of `fxopt_core`,
# and it takes a second.

# %%
# %matplotlib inline
import ast
import contextlib
import copy
import io
import logging
import statistics
import textwrap
import time
from collections import Counter
from pathlib import Path

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from torch import nn
from torch.export import Dim, export

import fxopt_core
from fxopt_core.capture import capture
from fxopt_core.devices import choose_device
from fxopt_core.optimizer import GraphOptimizer
from fxopt_workbench import zoo
from fxopt_workbench.pictures import draw
from fxopt_workbench.structure import find_repeats, find_stages, values_in_meta

torch._logging.set_logs(all=logging.CRITICAL)  # every refusal below is shown; the log would show it twice
transformers.logging.set_verbosity_error()
device = choose_device()
aten = torch.ops.aten

# %%
files = sorted(Path(str(fxopt_core.__file__)).parent.rglob("*.py"))
texts = [ast.get_docstring(ast.parse(file.read_text())) or "" for file in files]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
learned = Tokenizer(models.WordPiece(unk_token="[UNK]"))
learned.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
trainer = trainers.WordPieceTrainer(vocab_size=500, special_tokens=SPECIAL, show_progress=False)
learned.train_from_iterator(texts, trainer)
print(len(texts), "docstrings,", learned.get_vocab_size(), "pieces")

# %% [markdown]
# **Prediction.** Many of these docstrings say `graph`, none says `hippopotamus`. How many pieces does each word become?

# %%
for word in ("graph", "graphs", "hippopotamus"):
    print(f"{word:13}", learned.encode(word).tokens)

# %% [markdown]
# A frequent word is one piece, a rare one is several (`##` means that the word goes on). As long as the tokenizer knows
# the letters, it can spell out any word.
#
# A model reads several texts at once, as the rows of a table, so they all have to be equally long. The tokenizer pads
# the short ones with `[PAD]`, and an [attention mask](../Glossary.md#attention-mask) says which tokens count.

# %% tags=["nbval-check-output"]
ends = [(name, learned.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
learned.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
tokenizer = transformers.PreTrainedTokenizerFast(
    tokenizer_object=learned, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
)
batch = tokenizer(["a graph", "the graph of a model and a graph"], padding=True, return_tensors="pt").to(device)
print(batch["attention_mask"].cpu())

# %% [markdown]
# ## Model and tokenizer together
#
# *10 minutes.* Now give the numbers to a model: a tiny BERT with two layers and random weights. What comes out means
# nothing, but it behaves like the real thing in every way that matters today.

# %% tags=["nbval-check-output"]
torch.manual_seed(0)
sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
config = transformers.BertConfig(
    vocab_size=500, max_position_embeddings=64, attn_implementation="eager", return_dict=False, **sizes
)
bert = transformers.BertModel(config).eval().to(device)
inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
with torch.no_grad():
    states, pooled = bert(**inputs)
print("one vector a token:", states.shape[-1], "numbers; one vector a text:", tuple(pooled.shape))

# %% [markdown]
# **Prediction.** Now run the first text alone, without padding. Then run it with the padding, but leave out the mask.
# Which of the two gives you the same vector for the text as the table did?

# %% tags=["nbval-check-output"]
with torch.no_grad():
    alone = bert(**tokenizer(["a graph"], return_tensors="pt").to(device), return_dict=False)[1]
    unmasked = bert(input_ids=inputs["input_ids"])[1][:1]
print("alone, without padding:  ", torch.allclose(alone, pooled[:1], atol=1e-5))
print("with padding, no mask:   ", torch.allclose(unmasked, pooled[:1], atol=1e-5))

# %% tags=["claim"]
# Alone is the same, without the mask it is not.
assert torch.allclose(alone, pooled[:1], atol=1e-5)
assert not torch.allclose(unmasked, pooled[:1], atol=1e-5)

# %% [markdown]
# Without the mask, the model reads the padding as if it were text. You get no error, you get other numbers. If a capture
# loses the mask, it does the same thing forever.
#
# ## The whole model as a graph
#
# *10 minutes.* Before you change a model you want to see all of it at once. `torch.export` takes it in one piece.

# %%
program = export(bert, (), inputs)
graph_module = program.module(check_guards=False)
draw(program.graph_module, title="A BERT of two layers: the block is drawn once, with the number of its copies")

# %% tags=["claim"]
# Transformers' default is SDPA, which is why this BERT was asked for the written-out form.
by_default = transformers.BertModel(transformers.BertConfig(vocab_size=500, **sizes))
assert by_default.config._attn_implementation == "sdpa"

# %% [markdown]
# The picture folds up what repeats. How does it know? It doesn't trust names. `find_repeats` looks for the same block of
# nodes several times in a row, with each block reading what the one before it computed.

# %% tags=["nbval-check-output"]
graph = program.graph_module.graph
repeats = find_repeats(graph, values_in_meta(graph))
for repeat in repeats:
    print(f"{len(repeat.copies)} copies of {len(repeat.copies[0])} nodes")
block = repeats[0].copies[0]
print(Counter(str(node.target).removeprefix("aten.").split(".")[0] for node in block).most_common(6))

# %% [markdown]
# In words: the model turns tokens into vectors (`embedding`). Then each
# [transformer block](../Glossary.md#transformer-block) does two things. First it lets every token look at all the others:
# that's [attention](../Glossary.md#attention), the two `matmul` and the `softmax`. Then it works on each token alone:
# the last two `linear`. Each part adds its result to what it read, and normalises the sum.
#
# ## Attention, written out
#
# *10 minutes.* Attention is where the cost and the mistakes are, so look at it closely. Here's everything between the
# first matrix product and the second.

# %% tags=["nbval-check-output"]
products = [node for node in graph.nodes if node.target is aten.matmul.default]
nodes = list(graph.nodes)
for node in nodes[nodes.index(products[0]) : nodes.index(products[1]) + 1]:
    print(f"{node.name:10} {node.target!s:22} {tuple(node.meta['val'].shape)}")

# %% [markdown]
# Here are the same steps on their own, as a picture. Operators have the same names in every model. Modules don't: what
# one class calls `attention`, the next one calls `self`.


# %%
class Attends(nn.Module):
    """Attention, written out: (batch, heads, tokens, width) for each of the three."""

    def forward(self, query, key, value, mask):
        scores = query @ key.transpose(-2, -1) * 8**-0.5 + mask
        return torch.softmax(scores, dim=-1) @ value


of_heads = torch.randn(3, 2, 4, 11, 8, device=device).unbind()
written_out = export(Attends(), (*of_heads, torch.zeros(2, 1, 11, 11, device=device)))
draw(written_out, title="Attention, written out: product, scale, mask, softmax, product")

# %% [markdown]
# The first product computes a **score** for each pair of tokens: how well does the query of one fit the key of the other?
# The model scales the scores and adds the mask. The softmax turns them into weights that add up to one. The second
# product uses the weights to mix the values.
#
# **Prediction.** The model *adds* the mask. What number do you have to add to hide a token?

# %% tags=["nbval-check-output"]
where = next(node for node in nodes if node.target is aten.where.ScalarOther)
print("hidden:", where.args[2])
print("is it the least number that float32 has?", where.args[2] == torch.finfo(torch.float32).min)
print("softmax of [1, 2, hidden]:", torch.softmax(torch.tensor([1.0, 2.0, where.args[2]]), 0).tolist()[2])

# %% [markdown]
# Why not minus infinity? If a mask hides *every* token of a row, the softmax would divide zero by zero. With the least
# number that there is, it gives equal weights. Those are meaningless too, but at least they aren't `nan`.
#
# The scores are the expensive part. With 1000 tokens and 12 heads, each layer has 12 million of them.
#
# ## The same in one operator: SDPA
#
# *10 minutes.* Writing 12 million scores to memory and reading them back is slow. PyTorch offers the whole block as one
# operator, [scaled dot-product attention (SDPA)](../Glossary.md#scaled-dot-product-attention-sdpa), and it has more than
# one kernel for it. The good ones go over the scores tile by tile and never write them all down (Dao et al. 2022,
# *FlashAttention*). Transformers uses SDPA by default. For the BERT above we asked for `attn_implementation="eager"`, so
# that you could see the parts. Now ask for SDPA:

# %% tags=["nbval-check-output"]
fused_config = transformers.BertConfig(**{**config.to_dict(), "attn_implementation": "sdpa"})
fused_config._attn_implementation = "sdpa"
fused = transformers.BertModel(fused_config).eval().to(device)
fused.load_state_dict(bert.state_dict())
with torch.no_grad():
    print("same result:", torch.allclose(fused(**inputs)[0], states, atol=1e-4))
fused_program = export(fused, (), inputs)
for name, one in (("eager", program), ("SDPA", fused_program)):
    counts = Counter(str(node.target).removeprefix("aten.").split(".")[0] for node in one.graph.nodes)
    print(f"{name:6}", {what: counts[what] for what in ("matmul", "softmax", "scaled_dot_product_attention")})

# %%
attention = next(node for node in fused_program.graph.nodes if "scaled_dot_product" in str(node.target))
print("arguments:", attention.args)
print("more:     ", dict(attention.kwargs))

# %% [markdown]
# Query, key, value, mask, and the scale. Which kernel does that run? It depends on the shapes, so look rather than trust.
#
# **Prediction.** You call SDPA twice with the same numbers: once with a dimension for the heads (four dimensions), once
# without (three). Which of the two takes the scores apart tile by tile?

# %%
from torch.utils._python_dispatch import TorchDispatchMode


class Kernels(TorchDispatchMode):
    """Notes every operator that runs."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.seen.append(str(function).removeprefix("aten.").split(".")[0])
        return function(*args, **(kwargs or {}))


for dimensions, shape in ((4, (1, 2, 11, 8)), (3, (2, 11, 8))):
    one = torch.randn(shape, device=device)
    with torch.no_grad(), Kernels() as kernels:
        nn.functional.scaled_dot_product_attention(one, one, one)
    told = [name for name in kernels.seen if any(part in name for part in ("attention", "softmax", "bmm"))]
    print(f"{dimensions} dimensions:", ", ".join(told))

# %% tags=["claim"]
# Three dimensions run the math kernel on a processor: two products and a softmax.
if device.type == "cpu":
    assert [sum(part in name for name in told) for part in ("bmm", "softmax", "attention")][:2] == [2, 1]

# %% [markdown]
# With three dimensions, PyTorch falls back on its *math* kernel: two products and a softmax, with all the scores in
# memory. Give SDPA four dimensions if you want the fast one.
#
# What if a graph has attention written out, and you can't change the model? Then let a pass do it. This is the one from
# `fxopt_core`. In the exercise you'll write your own.

# %% tags=["nbval-check-output"]
on_cpu = {name: value.cpu() for name, value in inputs.items()}  # so that the counts below are the same on every machine
optimised = GraphOptimizer(copy.deepcopy(bert).cpu(), on_cpu, device="cpu").optimize(["attention_fusion"]).module
with torch.no_grad():
    print("same result:", torch.allclose(optimised(**on_cpu)[0], states.cpu(), atol=1e-4))
names = Counter(str(node.target).removeprefix("aten.").split(".")[0] for node in optimised.graph.nodes)
blocks = sum(count for name, count in names.items() if name.startswith("fused_attention"))
print("fused:", blocks, "blocks; softmax left:", names["softmax"])

# %% [markdown]
# **Prediction.** By default, the operator's `scale` is one over the square root of the head size. For which models would
# the default be silently wrong?

# %% tags=["nbval-check-output"]
torch.manual_seed(0)
query, key, value = torch.randn(3, 1, 2, 5, 16).unbind()
sdpa = nn.functional.scaled_dot_product_attention
for what, scale in (("written with the usual scale", 16**-0.5), ("written without a scale, as T5 does", 1.0)):
    written = torch.softmax(query @ key.transpose(-2, -1) * scale, dim=-1) @ value
    print(f"{what:36} default right: {torch.allclose(sdpa(query, key, value), written, atol=1e-5)!s:6}", end="")
    print("told right:", torch.allclose(sdpa(query, key, value, scale=scale), written, atol=1e-5))

# %% [markdown]
# ## What a cache does to a graph
#
# *10 minutes.* GPT-2 writes one token after another, and it would be a waste to start over each time. The keys and values
# of the old tokens don't change, so a [key-value cache](../Glossary.md#key-value-cache) keeps them, and each step only
# reads one new token. That's good for speed and bad for capturing: a graph has no place for an object that grows with
# every call.

# %% tags=["nbval-check-output"]
torch.manual_seed(0)
gpt2_config = transformers.GPT2Config(
    vocab_size=500, n_positions=64, n_embd=32, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=2
)
gpt2 = transformers.GPT2Model(gpt2_config).eval().to(device)
tokens = torch.randint(4, 500, (1, 6), device=device)
with torch.no_grad():
    whole = gpt2(tokens, use_cache=False).last_hidden_state
    first = gpt2(tokens[:, :5], use_cache=True)
    print(
        "the cache is a", type(first.past_key_values).__name__, "of", first.past_key_values.get_seq_length(), "tokens"
    )
    step = gpt2(tokens[:, 5:], past_key_values=first.past_key_values, use_cache=True)
    print(
        "one step with it gives the last token's state:",
        torch.allclose(step.last_hidden_state, whole[:, 5:], atol=1e-4),
    )
    print("the same object now has", first.past_key_values.get_seq_length(), "tokens")

# %% [markdown]
# The call changed its argument. **Prediction.** Compile the model and write ten tokens. Dynamo can use symbols for sizes.
# How many graphs will it make: one, two or ten?

# %%
graphs = []


def counting(graph_module, example_inputs):
    graphs.append(graph_module)
    return graph_module.forward


torch._dynamo.reset()
compiled = torch.compile(gpt2, backend=counting)
with torch.no_grad():
    cache = gpt2(tokens[:, :3], use_cache=True).past_key_values
    for _ in range(10):
        cache = compiled(tokens[:, :1], past_key_values=cache, use_cache=True).past_key_values
print(len(graphs), "graphs for ten steps, after which the cache holds", cache.get_seq_length(), "tokens")
for number, one in enumerate(graphs, start=1):
    values = [node.meta["example_value"] for node in one.graph.find_nodes(op="placeholder")]
    kept = next(value.shape for value in values if isinstance(value, torch.Tensor) and value.dim() == 4)
    print(f"graph {number} reads keys of shape", tuple(kept))
torch._dynamo.reset()

# %% tags=["claim"]
# Two graphs: a number in the first, a symbol in the second.
assert len(graphs) == 2

# %% [markdown]
# The length of the cache is a size like any other. It's a number in the first graph and a symbol in the second, and that
# one serves all later steps. A **static cache** does the opposite: it makes room for the largest number of tokens right
# away, so that every step has the same shape.
#
# ## What breaks in real models, and how to read it
#
# *15 minutes.* Sooner or later a capture will refuse your model. Here are two refusals that you'll meet often, and one
# trap. First, an innocent line that many models have: they check whether there is any padding at all.


# %%
class Pools(nn.Module):
    """One vector a text: the mean of its tokens' vectors."""

    def forward(self, states, attention_mask):
        if attention_mask.all():  # nothing is padded: do without the mask
            return states.mean(dim=1)
        weights = attention_mask.unsqueeze(-1).to(states.dtype)
        return (states * weights).sum(dim=1) / weights.sum(dim=1)


pools, pooled_from = Pools(), (states, inputs["attention_mask"])


def said(make):
    """The type of the error and the line of it that says most."""
    with contextlib.redirect_stderr(io.StringIO()):
        try:
            make()
        except Exception as error:
            return f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
    return "no error"


print(said(lambda: export(pools, pooled_from)))

# %% [markdown]
# `u0` (or a name like it) stands for a value that only exists when the graph runs. The model wants to decide on data.
# What would a recording do? **Prediction.** You run `torch.jit.trace` on two texts without padding. Does the result still
# look at the mask?

# %%
import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    full = (states, torch.ones_like(inputs["attention_mask"]))
    traced = torch.jit.trace(pools, full, check_trace=False)
with torch.no_grad():
    print("trace agrees where there is padding:", torch.allclose(traced(*pooled_from), pools(*pooled_from), atol=1e-5))

# %% tags=["claim"]
# The trace has lost the mask.
with torch.no_grad():
    assert not torch.allclose(traced(*pooled_from), pools(*pooled_from), atol=1e-5)

# %% [markdown]
# It lost the mask without a word. The refusal was the better answer.
#
# The second refusal is about sizes. An exported program only takes the shapes of its example, unless you say what varies.

# %% tags=["nbval-check-output"]
longer = {name: value.repeat(1, 2) for name, value in inputs.items()}
print("another length:", "refused" if "Error" in said(lambda: program.module()(**longer)) else "served")
varying = {0: Dim("batch", min=1, max=64), 1: Dim("length", min=2, max=64)}
flexible = export(bert, (), inputs, dynamic_shapes=dict.fromkeys(inputs, varying))
with torch.no_grad():
    same = torch.allclose(flexible.module()(**longer)[1], bert(**longer)[1], atol=1e-4)
print("with dynamic batch and length, the same as the model:", same)

# %% [markdown]
# The trap is what comes back. Libraries return classes of their own, with many optional entries. Export lets them
# through, and then whatever reads your graph has to know these classes. If you pass `return_dict=False`, as we did for
# BERT, you get plain tuples.
#
# When you read a refusal, ask three questions in this order. *What kind* is it: data-dependent, a guard on sizes, an
# unsupported call? *Which line of the model* caused it: look for the last line of the trace that isn't torch's. *What can
# you change*: the input, the configuration, or the line?
#
# ## What compiling a transformer costs and gives
#
# *10 minutes.* Should you compile this model? Profile it: the first call, then the others. On such a tiny model the
# figures are small, so look at their ratio.


# %% tags=["not-graded"]
def synchronize():
    if device.type != "cpu":
        getattr(torch, device.type).synchronize()


def seconds(model):
    synchronize()
    begin = time.perf_counter()
    model(**inputs)
    synchronize()
    return time.perf_counter() - begin


profile = {}
with torch.no_grad():
    for backend in ("eager", "aot_eager"):
        torch._dynamo.reset()
        compiled = torch.compile(bert, backend=backend)
        first_call = seconds(compiled)
        steady = statistics.median(seconds(compiled) for _ in range(9))
        profile[backend] = first_call, steady
    plain = statistics.median(seconds(bert) for _ in range(9))
torch._dynamo.reset()
print(f"{'not compiled':14} {'':18} then {1000 * plain:6.2f} ms a call")
for backend, (first_call, steady) in profile.items():
    print(f"{backend:14} first {1000 * first_call:7.0f} ms    then {1000 * steady:6.2f} ms a call")

# %% [markdown]
# `eager` is Dynamo alone. `aot_eager` adds AOTAutograd. Neither generates any code: that's Inductor's part, and in the
# exercise you'll see that it costs a good deal more. Does it pay off? Divide *what compiling costs* by *what each call
# saves*, and you have the number of calls. If a call saves nothing, the answer is never.
#
# ## Detectors: stages of a graph
#
# *10 minutes.* Does any of this help with models that don't read text? DETR and YOLO look for objects in images.
# `find_stages` finds their parts from the shapes alone: where the map gets coarser, where maps of several sizes are
# mixed, and so on.
#
# **Prediction.** This DETR has one encoder layer and one decoder layer. How many times does its graph compute attention?
# And if you searched both graphs for a softmax, what would you find?

# %% tags=["nbval-check-output"]
detectors = {}
for name in ("detr", "yolov8n"):
    entry = zoo.build(name, device="cpu")
    detector = detectors[name] = capture(entry.model, entry.example_inputs, method="export").graphs[0]
    print(name)
    for stage in find_stages(detector.graph, values_in_meta(detector.graph)):
        line = f"  {stage.name:12} {len(stage.nodes):4} nodes  {stage.why}"
        print(textwrap.fill(line, 100, subsequent_indent=27 * " "))

# %% tags=["nbval-check-output"]
for name, detector in detectors.items():
    kinds = Counter(str(node.target).removeprefix("aten.").split(".")[0] for node in detector.graph.nodes)
    print(f"{name:8}", {what: kinds[what] for what in ("conv2d", "softmax", "scaled_dot_product_attention")})

# %% [markdown]
# An encoder layer attends once. A decoder layer attends twice: to its own queries, and to what the encoder has seen. That
# makes three. Why did `find_stages` speak of two? It follows what comes from the image, and when the queries of the first
# decoder layer look at one another, none of them has seen the image yet. You won't find them by their softmax, because DETR already uses SDPA. And not every softmax is attention:
# YOLO has one in its head, where it reads a distance off a distribution.

# %% [markdown]
# ## What to remember
#
# - A transformer's graph is one block, repeated. You recognise it by its structure, not by names.
# - Attention is product, softmax, product. In between come scale and mask, and both are easy to lose.
# - SDPA does the same in one operator. Mind its default scale, and give it four dimensions if you want the fast kernel.
# - A recording that never saw padding has no mask. A refusal is the better answer.
# - Caches make sizes grow. Symbols or a static cache keep the number of graphs small.
# - Whether compiling pays off depends on how often you call the model.
#
# Now do it yourself: [exercise 4](ex_04_huggingface_integration.ipynb).

# %% [markdown]
# ## Where this comes from
#
# - A. Vaswani et al., *Attention Is All You Need*, NeurIPS 2017
# - J. Devlin et al., *BERT*, NAACL 2019; A. Radford et al., *GPT-2*, 2019
# - T. Dao et al., *FlashAttention*, NeurIPS 2022;
#   [documentation of SDPA](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html)
# - N. Carion et al., *End-to-End Object Detection with Transformers* (DETR), ECCV 2020
