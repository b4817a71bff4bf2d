"""An elementwise operator with broadcasting, promotion and `out=`, by TensorIterator and with vector code."""
