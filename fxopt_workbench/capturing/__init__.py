"""What the workbench knows about capture beyond the core: methods to compare with, ways for `auto`, explanations."""
