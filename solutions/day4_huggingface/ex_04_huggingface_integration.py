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
# From text to a graph that you know piece by piece. Six tasks: an hour for the core, and one stretch task for those who
# want more. All models are small and built from their configurations with random weights: nothing is downloaded.
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

from autograder import check
from autograder.exercises.day4.models import build_transformer, draw_text, flat_graph
from autograder.submit_cell import submit

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
        return max(float((found - wanted).abs().max()) for found, wanted in pairs)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "text_to_bert", "locked": true, "points": 20, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.day4.text_to_bert(encode_texts, export_bert, greatest_difference)

# %% [markdown] nbgrader={"grade": false, "grade_id": "ex04-submit-text", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Submit
#
# Save the notebook (Ctrl+S or ⌘S), then take the `#` away and run this cell. It says how many points you have and
# where the feedback page lies.

# %%
# submit("ex_04")
