"""Counts bytes by the state of the block and of its segment."""

from collections import Counter


def report(snapshot):
    bytes_of = Counter()
    asked = 0
    for segment in snapshot:
        shared = any(block["state"] != "inactive" for block in segment["blocks"])
        for block in segment["blocks"]:
            bytes_of[block["state"], shared] += block["size"]
            asked += block["requested_size"] * (block["state"] == "active_allocated")
    allocated = bytes_of["active_allocated", True]
    return {
        "reserved": sum(bytes_of.values()),
        "allocated": allocated,
        "rounding": allocated - asked,
        "waiting": bytes_of["active_pending_free", True],
        "releasable": bytes_of["inactive", False],
        "stuck": bytes_of["inactive", True],
    }


def serves(snapshot, stream, size):
    needed = size + -size % 512
    for segment in snapshot:
        if segment["stream"] != stream or (segment["segment_type"] == "small") != (needed <= 1 << 20):
            continue
        for block in segment["blocks"]:
            if block["state"] == "inactive" and not block["size"] < needed:
                return True
    return False
