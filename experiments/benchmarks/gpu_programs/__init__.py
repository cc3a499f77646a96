"""Programs compiled for a GPU on a machine without one: launches, bytes, memory, estimated time."""
