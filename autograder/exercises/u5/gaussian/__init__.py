"""An operator with its derivative and its fake kernel in C++: what autograd, export and the compiler make of it."""
