"""`fxopt dashboard`: a local page about a class, from the gradebook, in any browser and asking nobody outside."""
