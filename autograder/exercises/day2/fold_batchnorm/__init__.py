"""Conv+BN folding: a normalisation in evaluation becomes part of the convolution before it."""
