"""The task layers_of_a_call: what belongs to what in a trace of the profiler."""
