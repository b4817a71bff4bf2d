"""What the units of Inside PyTorch show: their pictures, and each unit's demonstration as a profiled script.

`python -m fxopt_workbench.internals.u1_architecture` runs that of unit 1, `….u2_tensors` that of unit 2, and so on.
"""
