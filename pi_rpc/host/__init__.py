"""All sessions of this process, shared by the front doors."""
