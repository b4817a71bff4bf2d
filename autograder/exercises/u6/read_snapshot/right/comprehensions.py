"""One comprehension for each figure."""


def blocks(snapshot, state):
    return [block for segment in snapshot for block in segment["blocks"] if block["state"] == state]


def report(snapshot):
    used = blocks(snapshot, "active_allocated")
    empty = [one for one in snapshot if {block["state"] for block in one["blocks"]} == {"inactive"}]
    free = sum(block["size"] for block in blocks(snapshot, "inactive"))
    releasable = sum(one["total_size"] for one in empty)
    return {
        "reserved": sum(one["total_size"] for one in snapshot),
        "allocated": sum(block["size"] for block in used),
        "rounding": sum(block["size"] for block in used) - sum(block["requested_size"] for block in used),
        "waiting": sum(block["size"] for block in blocks(snapshot, "active_pending_free")),
        "releasable": releasable,
        "stuck": free - releasable,
    }


def serves(snapshot, stream, size):
    pool = "large" if size > 1024 * 1024 else "small"
    mine = [one for one in snapshot if (one["stream"], one["segment_type"]) == (stream, pool)]
    largest = max((block["size"] for block in blocks(mine, "inactive")), default=0)
    return largest >= (size + 511) // 512 * 512
