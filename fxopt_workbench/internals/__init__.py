"""What the units of Inside PyTorch show: their pictures, and each unit's demonstration as a profiled script.

`python -m fxopt_workbench.internals.u1_architecture` runs that of unit 1, `….u2_tensors` that of unit 2,
`….u3_dispatcher` that of unit 3, `….u4_autograd` that of unit 4, `….u5_operators` that of unit 5, `….u6_memory` that
of unit 6, `….u7_ecosystem` that of unit 7, `….u7_ranks` that of unit 7, `….u8_contributing` that of unit 8.
"""
