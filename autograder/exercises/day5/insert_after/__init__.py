"""Insert a node after every call of a function, so that all readers read the new one."""
