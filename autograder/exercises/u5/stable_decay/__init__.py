"""An operator that is built against the stable ABI only."""
