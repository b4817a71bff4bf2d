"""The capstone task: a capture tool of the learner's own, on models that it captures whole or refuses."""
