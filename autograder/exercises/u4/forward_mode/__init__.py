"""Jacobian-vector products: by dual numbers, and by two backward passes."""
