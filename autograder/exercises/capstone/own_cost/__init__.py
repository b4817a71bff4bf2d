"""The capstone task: a cost tool of the learner's own, on graphs whose costs are counted."""
