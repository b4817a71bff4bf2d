"""An allocator between a program and a device, played on traces of requests."""
