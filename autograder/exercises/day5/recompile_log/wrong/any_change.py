"""every change counted

Believes that every new value makes Dynamo compile.
"""

import torch


def same(a, b):
    return (
        torch.equal(a, b)
        if isinstance(a, torch.Tensor) and a.dtype == b.dtype
        else a is b or not isinstance(a, torch.Tensor) and a == b
    )


def recompile_log(function, calls):
    log, seen = [("compiled", "")], [calls[0]]
    for arguments in calls[1:]:
        if any(all(same(earlier[name], arguments[name]) for name in arguments) for earlier in seen):
            log.append(("reused", ""))
            continue
        seen.append(arguments)
        log.append(("recompiled", next(name for name in arguments if not same(calls[0][name], arguments[name]))))
    return log
