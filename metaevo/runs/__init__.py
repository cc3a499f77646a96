"""What a run leaves on disk, and its life: open, save, resume, stop, end."""
