"""What the units of Inside PyTorch show: their pictures, and each unit's demonstration as a profiled script.

`python -m fxopt_workbench.internals.u2_tensors` runs that of unit 2, `….u3_dispatcher` that of unit 3,
`….u5_operators` that of unit 5.
"""
