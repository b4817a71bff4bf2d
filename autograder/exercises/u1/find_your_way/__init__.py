"""The task find_your_way: where an operator is declared, what serves it on the processor, how it is derived."""
