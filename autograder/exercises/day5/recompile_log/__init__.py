"""Tell for each call whether compiled code was reused, and which argument's guard failed when it was not."""
