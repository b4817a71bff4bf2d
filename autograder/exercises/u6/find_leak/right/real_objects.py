"""Builds the objects in Python, and looks at what goes."""

import gc
import weakref


class Thing:
    def __init__(self):
        self.others = []


def build(snapshot):
    things = {name: Thing() for name in snapshot["objects"]}
    for name, one in snapshot["objects"].items():
        things[name].others = [things[other] for other in one["refers_to"]]
    variables = [things[name] for name in snapshot["variables"]]
    return things, variables


def in_use(snapshot):
    found = set(snapshot["variables"])
    size = -1
    while size != len(found):
        size = len(found)
        found |= {other for name in found for other in snapshot["objects"][name]["refers_to"]}
    return found


def find_leak(before, after):
    used = in_use(after)
    holders = {}
    was = gc.isenabled()
    gc.disable()
    try:
        for name in sorted(used & in_use(before)):
            old = before["objects"][name]["refers_to"]
            if len(after["objects"][name]["refers_to"]) > len(old):
                things, variables = build(after)
                watched = {one: weakref.ref(thing) for one, thing in things.items()}
                things[name].others = [
                    things[one] for one in after["objects"][name]["refers_to"] if one in before["objects"]
                ]
                things.clear()
                holders[name] = sum(after["objects"][one]["bytes"] for one, look in watched.items() if look() is None)
                variables.clear()
    finally:
        if was:
            gc.enable()
    return {
        "garbage": sum(one["bytes"] for name, one in after["objects"].items() if name not in used),
        "holders": holders,
    }
