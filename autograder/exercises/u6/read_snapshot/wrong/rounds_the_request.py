"""rounding to 512 only

Works out the rounding from the request alone: what a large block keeps of a rest is left out.
"""


def report(snapshot: list[dict]) -> dict[str, int]:
    """Where the bytes of a snapshot are."""
    figures = dict.fromkeys(("reserved", "allocated", "rounding", "waiting", "releasable", "stuck"), 0)
    for segment in snapshot:
        figures["reserved"] += segment["total_size"]
        free = 0
        for block in segment["blocks"]:
            if block["state"] == "active_allocated":
                figures["allocated"] += block["size"]
                figures["rounding"] += -block["requested_size"] % 512
            elif block["state"] == "active_pending_free":
                figures["waiting"] += block["size"]
            else:
                free += block["size"]
        figures["releasable" if free == segment["total_size"] else "stuck"] += free
    return figures


def serves(snapshot: list[dict], stream: int, size: int) -> bool:
    """Whether a request gets a block from the cache."""
    kind = "small" if size <= 2**20 else "large"
    return any(
        block["state"] == "inactive" and block["size"] >= size
        for segment in snapshot
        if segment["stream"] == stream and segment["segment_type"] == kind
        for block in segment["blocks"]
    )
