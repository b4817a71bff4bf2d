"""Constant folding: what depends on nothing that can change is computed once, beforehand."""
