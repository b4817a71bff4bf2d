"""GPT-2 compiled for any batch and length."""
