"""Devices, several processes, random keys and kept programs: more than one of anything."""
