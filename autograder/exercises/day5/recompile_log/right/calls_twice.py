"""Calls once more what was reused, which changes nothing: no function writes into its arguments."""

import io
import re
import tokenize

import torch


def blame(message, names):
    """The argument that the failed guard of the first version is about."""
    line = next(line for line in message.splitlines() if re.search(r"\b\d+/0: ", line))
    guard = line.partition("/0: ")[2]
    quoted = re.search(r"(?:tensor|type of) '([A-Za-z_]\w*)", guard)
    if quoted and quoted.group(1) in names:
        return quoted.group(1)
    words = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(guard).readline):
            words.append((token.type, token.string))
    except (tokenize.TokenError, IndentationError):
        pass
    for place, (kind, word) in enumerate(words):
        called = place + 1 < len(words) and words[place + 1][1] == "("
        inside = place > 0 and words[place - 1][1] == "."
        if kind == tokenize.NAME and word in names and not called and not inside:
            return word
    return next(name for name in names if re.search(rf"\b{re.escape(name)}\b", guard))


def recompile_log(function, calls):
    """For each call what happened, and which argument is to blame."""
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="eager", dynamic=False)
    log = []
    for place, call in enumerate(calls):
        if place == 0:
            compiled(**call)
            log.append(("compiled", ""))
            continue
        try:
            with torch._dynamo.config.patch(error_on_recompile=True):
                compiled(**call)
        except torch._dynamo.exc.RecompileError as error:
            name = blame(str(error), list(call))
            compiled(**call)
            log.append(("recompiled", name))
        else:
            compiled(**call)  # allowed to compile again
            log.append(("reused", ""))
    return log
