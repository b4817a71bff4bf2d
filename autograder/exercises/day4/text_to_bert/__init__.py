"""From text to a verified exported BERT."""
