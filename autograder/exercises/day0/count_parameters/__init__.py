"""How many parameters a layer has, from its numbers."""
