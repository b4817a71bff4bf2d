"""Makes each call twice, first where Dynamo may not recompile: that changes nothing, as no function writes."""

import re

import torch


def blame(message, names):
    """The argument that the failed guard of the first version is about."""
    guard = re.search("/0: .*", message)[0]
    return next(word for word in re.findall(r"\w+", guard) if word in names)


def recompile_log(function, calls):
    """For each call what happened, and which argument is to blame."""
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="eager", dynamic=False)
    log = []
    for call in calls:
        pair = ("reused" if log else "compiled", "")
        try:
            with torch._dynamo.config.patch(error_on_recompile=True):
                compiled(**call)
        except torch._dynamo.exc.RecompileError as error:
            pair = ("recompiled", blame(str(error), call))
        compiled(**call)  # allowed to compile again
        log.append(pair)
    return log
