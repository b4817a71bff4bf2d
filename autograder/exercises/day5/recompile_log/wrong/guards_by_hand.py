"""guards on sizes only

Compiles nothing: finds out which arguments a run reads, and compares shapes, dtypes and values by itself.
"""

import torch


class Untouchable:
    def __getattribute__(self, name):
        raise KeyError(name)

    def __bool__(self):
        raise KeyError

    __index__ = __neg__ = __bool__


def reads(function, arguments):
    found = set()
    for name in arguments:
        try:
            function(**{**arguments, name: Untouchable()})
        except Exception:
            found.add(name)
    return found


def state(value):
    return (value.shape, value.dtype) if isinstance(value, torch.Tensor) else (type(value), value)


def recompile_log(function, calls):
    log, versions = [], []
    for arguments in calls:
        if any(all(state(arguments[name]) == held for name, held in version.items()) for version in versions):
            log.append(("reused", ""))
            continue
        if versions:
            log.append(("recompiled", next(n for n, held in versions[0].items() if state(arguments[n]) != held)))
        else:
            log.append(("compiled", ""))
        versions.append({name: state(arguments[name]) for name in reads(function, arguments)})
    return log
