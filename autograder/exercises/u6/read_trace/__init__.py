"""A trace of a host and a device, and why the device stands still."""
