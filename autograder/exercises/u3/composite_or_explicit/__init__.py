"""One function as two operators: composite, and explicit with a derivative of its own."""
