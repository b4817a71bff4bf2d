"""Replace attention that is written out by the fused operator."""
