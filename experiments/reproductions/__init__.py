"""Published comparisons, run again side by side on one machine; see experiments/reproduce.py."""
