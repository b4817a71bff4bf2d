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
# So far your graphs came from models made for teaching. Real ones come with a library: tokenizers, configurations, output
# classes, masks that are built on the way, caches, and a dozen ways to write the same attention. All of that ends up in the
# graph, or breaks its capture.

# %% [markdown]
# Underneath, though, there is little: **one block, repeated**. Whoever recognises the block in a graph, whatever it is
# called there, can count what a model costs, speed it up, and see at once when something was lost on the way.
#
# Today you follow a text from words to numbers to a graph, take attention apart and put it together again, see what a
# mask and a cache do to a capture, and measure what compiling a transformer costs and gives. At the end the same tools
# read two detectors, which are no language models at all.

# %% [markdown]
# ## From words to numbers
#
# *10 minutes.* A model reads numbers. A [tokenizer](../Glossary.md#tokenizer) cuts a text into pieces from a vocabulary and numbers them. Where
# does a vocabulary come from? It is learned from text; here from the docstrings of `fxopt_core`, in a second.

# %%
# %matplotlib inline
import ast
import contextlib
import copy
import io
import logging
import statistics
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
# **Prediction.** `graph` stands in many of these docstrings, `hippopotamus` in none. How many pieces does each become?

# %%
for word in ("graph", "graphs", "hippopotamus"):
    print(f"{word:13}", learned.encode(word).tokens)

# %% [markdown]
# Frequent words are one piece, rare ones several (`##` says: goes on). Nothing is unknown, as long as its letters are known.
#
# A model reads several texts at once, as a table. Rows have to be equally long, so that short ones are filled up with
# `[PAD]`, and an [attention mask](../Glossary.md#attention-mask) says which tokens count.

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
# *10 minutes.* A tiny BERT with a vocabulary of the same size: two layers, random weights, from a configuration. What
# comes out is meaningless and has every property that matters here.

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
# **Prediction.** Now the first text alone, without filling; and once more with the filling, but without the mask. Which of
# the two gives the same vector for the text as the table did?

# %% tags=["nbval-check-output"]
with torch.no_grad():
    alone = bert(**tokenizer(["a graph"], return_tensors="pt").to(device), return_dict=False)[1]
    unmasked = bert(input_ids=inputs["input_ids"])[1][:1]
print("alone, without filling:  ", torch.allclose(alone, pooled[:1], atol=1e-5))
print("with filling, no mask:   ", torch.allclose(unmasked, pooled[:1], atol=1e-5))

# %% [markdown]
# Without the mask the model reads the filling as text. There is no error; the numbers are other numbers. A capture that
# loses the mask does just that, for ever.
#
# ## The whole model as a graph
#
# *10 minutes.* `torch.export` takes it in one piece.

# %%
program = export(bert, (), inputs)
graph_module = program.module(check_guards=False)
draw(program.graph_module, title="A BERT of two layers: the block is drawn once, with the number of its copies")

# %% [markdown]
# The picture folds what is repeated. Where does it know from? Not from names: `find_repeats` looks for runs of nodes that do
# the same to what the run before them gave.

# %% tags=["nbval-check-output"]
graph = program.graph_module.graph
repeats = find_repeats(graph, values_in_meta(graph))
for repeat in repeats:
    print(f"{len(repeat.copies)} copies of {len(repeat.copies[0])} nodes")
block = repeats[0].copies[0]
print(Counter(str(node.target).removeprefix("aten.").split(".")[0] for node in block).most_common(6))

# %% [markdown]
# In words: tokens become vectors (`embedding`), then each [transformer block](../Glossary.md#transformer-block) lets every token look at all others
# ([attention](../Glossary.md#attention): the two `matmul` and the `softmax`), and works on each alone (the last two `linear`). What each part gives
# is added to what it read, and normalised.
#
# ## Attention, written out
#
# *10 minutes.* Here is what lies between the first product of matrices and the second.

# %% tags=["nbval-check-output"]
products = [node for node in graph.nodes if node.target is aten.matmul.default]
nodes = list(graph.nodes)
for node in nodes[nodes.index(products[0]) : nodes.index(products[1]) + 1]:
    print(f"{node.name:10} {node.target!s:22} {tuple(node.meta['val'].shape)}")

# %% [markdown]
# The same steps alone, as a picture. Each box has one name in every model; what is called `attention` in one class is called
# `self` in the next.


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
# Each number of the result of the first product is a **score**: how much the query of one token fits the key of another. They are
# scaled, the mask is added, and the softmax makes weights that add up to one. The second product mixes the values by them.
#
# **Prediction.** The mask is *added*. Which number hides a token?

# %% tags=["nbval-check-output"]
where = next(node for node in nodes if node.target is aten.where.ScalarOther)
print("hidden:", where.args[2])
print("is it the least number that float32 has?", where.args[2] == torch.finfo(torch.float32).min)
print("softmax of [1, 2, hidden]:", torch.softmax(torch.tensor([1.0, 2.0, where.args[2]]), 0).tolist()[2])

# %% [markdown]
# Why not minus infinity? In a row where *every* token is hidden, the softmax would divide zero by zero. With the least
# number it gives equal weights: also meaningless, but no `nan`.
#
# The scores are the expensive part: for 1000 tokens and 12 heads there are 12 million of them, in each layer.
#
# ## The same in one operator: SDPA
#
# *10 minutes.* PyTorch has the whole block as [scaled dot-product attention (SDPA)](../Glossary.md#scaled-dot-product-attention-sdpa). It never writes the scores to memory: it
# goes over them tile by tile (Dao et al. 2022, *FlashAttention*). The library takes it when the configuration says so.

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
# Query, key, value, mask, and the scale. What if the graph has attention written out, and nobody can change the model? Then
# a pass can. This is the one of `fxopt_core`; in the exercise you write your own.

# %% tags=["nbval-check-output"]
on_cpu = {name: value.cpu() for name, value in inputs.items()}  # so that the counts below are the same on every machine
optimised = GraphOptimizer(copy.deepcopy(bert).cpu(), on_cpu, device="cpu").optimize(["attention_fusion"]).module
with torch.no_grad():
    print("same result:", torch.allclose(optimised(**on_cpu)[0], states.cpu(), atol=1e-4))
names = Counter(str(node.target).removeprefix("aten.").split(".")[0] for node in optimised.graph.nodes)
blocks = sum(count for name, count in names.items() if name.startswith("fused_attention"))
print("fused:", blocks, "blocks; softmax left:", names["softmax"])

# %% [markdown]
# **Prediction.** The operator has a `scale`, which is one by the root of the width of a head if you say nothing. In which
# models would "saying nothing" be silently wrong?

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
# *10 minutes.* GPT-2 writes one token after the other. Key and value of the old tokens do not change, so a
# [key-value cache](../Glossary.md#key-value-cache) keeps them: each step reads one new token. An object that grows at each call is not what a graph is made of.

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
# The call changed its argument. **Prediction.** Ten steps of writing, compiled: how many graphs does Dynamo make if it may
# use symbols for sizes, one, two or ten?

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

# %% [markdown]
# The length of the cache is a size like others: a number in the first graph, a symbol in the second, which serves all steps
# after it. A **static cache** goes the other way: it reserves room for the most tokens at once, and all steps have one shape.
#
# ## What breaks in real models, and how to read it
#
# *15 minutes.* Three typical refusals. First, an innocent line that many models have: a check of the mask.


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
# `u0` (or a name like it) is a value that exists only when the graph runs: a decision on data. What would a recording
# do? **Prediction.** `torch.jit.trace` on two texts without filling: does its result look at the mask?

# %%
import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    full = (states, torch.ones_like(inputs["attention_mask"]))
    traced = torch.jit.trace(pools, full, check_trace=False)
with torch.no_grad():
    print("trace agrees where there is filling:", torch.allclose(traced(*pooled_from), pools(*pooled_from), atol=1e-5))

# %% [markdown]
# It lost the mask, without a word. The refusal was the better answer.
#
# Second: sizes. An exported program serves the shapes of its example, unless you name what varies.

# %% tags=["nbval-check-output"]
longer = {name: value.repeat(1, 2) for name, value in inputs.items()}
print("another length:", "refused" if "Error" in said(lambda: program.module()(**longer)) else "served")
varying = {0: Dim("batch", min=1, max=64), 1: Dim("length", min=2, max=64)}
flexible = export(bert, (), inputs, dynamic_shapes=dict.fromkeys(inputs, varying))
with torch.no_grad():
    same = torch.allclose(flexible.module()(**longer)[1], bert(**longer)[1], atol=1e-4)
print("with dynamic batch and length, the same as the model:", same)

# %% [markdown]
# Third: what comes back. Libraries return classes of their own with many optional entries. They go through export, but
# what reads the graph afterwards has to know them. `return_dict=False`, as in all our configurations, gives plain tuples.
#
# How to read a refusal, in order: *which kind* (data-dependent, a guard on sizes, an unsupported call), *which line of the
# model* (the last line of the trace that is not torch's), *what may be changed* (the input, the configuration, the line).
#
# ## What compiling a transformer costs and gives
#
# *10 minutes.* A profile: the first call, then the others. On these tiny models the figures are small; their ratio is what
# to look at.


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
# `eager` is Dynamo alone, `aot_eager` adds AOTAutograd: most of what a first call costs is there before any code is
# generated. Whether it pays is one division: *what compiling costs / what each call saves*, in calls; never, if a call saves
# nothing. In the exercise you compute it with Inductor.
#
# ## Detectors: stages of a graph
#
# *10 minutes.* DETR and YOLO look for objects in images. `find_stages` reads backbone, neck, transformer and head off
# the shapes alone: where the map gets coarser, where levels are exchanged, where it becomes tokens.

# %% tags=["nbval-check-output"]
detectors = {}
for name in ("detr", "yolov8n"):
    entry = zoo.build(name, device="cpu")
    detector = detectors[name] = capture(entry.model, entry.example_inputs, method="export").graphs[0]
    print(name)
    for stage in find_stages(detector.graph, values_in_meta(detector.graph)):
        print(f"  {stage.name:12} {len(stage.nodes):4} nodes  {stage.why[:70]}")

# %% [markdown]
# **Prediction.** One of the two has attention. Which? Would a search for *product, softmax, product* find it?

# %% tags=["nbval-check-output"]
for name, detector in detectors.items():
    kinds = Counter(str(node.target).removeprefix("aten.").split(".")[0] for node in detector.graph.nodes)
    print(f"{name:8}", {what: kinds[what] for what in ("conv2d", "softmax", "scaled_dot_product_attention")})

# %% [markdown]
# DETR's attention is fused already: no product and no softmax is left to be found. And a softmax alone does not make
# attention: YOLO has one, in its head, which reads distances off a distribution.

# %% [markdown]
# ## What to remember
#
# - A transformer's graph is one block, repeated; its structure tells it, names do not.
# - Attention is product, softmax, product; on the way lie scale and mask, and both are easily lost.
# - SDPA is the same in one operator. Its default scale is a trap wherever a model scales otherwise.
# - A recording that never saw filling has no mask. A refusal is the better answer.
# - Caches make sizes grow; symbols or a static cache keep the number of graphs small.
# - Compiling pays or not, and the number of calls decides.

# %% [markdown]
# ## Where this comes from
#
# - A. Vaswani et al., *Attention Is All You Need*, NeurIPS 2017
# - J. Devlin et al., *BERT*, NAACL 2019; A. Radford et al., *GPT-2*, 2019
# - T. Dao et al., *FlashAttention*, NeurIPS 2022;
#   [documentation of SDPA](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html)
# - N. Carion et al., *End-to-End Object Detection with Transformers* (DETR), ECCV 2020
