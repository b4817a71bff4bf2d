"""An operator in C++ that finds the longest run in each row, whatever the strides."""
