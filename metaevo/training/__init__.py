"""Training runs: `metaevo train`, and its sweeps."""
