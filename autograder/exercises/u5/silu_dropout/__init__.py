"""An activation and dropout in one pass, with a random stream that can be repeated."""
