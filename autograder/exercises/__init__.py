"""The graded tasks, a folder each: `visible.py` (check and probe), `judge.py`, `wrong/` and `right/`."""
