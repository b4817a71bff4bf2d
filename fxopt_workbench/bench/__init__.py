"""The `fxopt bench` command: passes, models, capture and recomputation beside their peers."""
