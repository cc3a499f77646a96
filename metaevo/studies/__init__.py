"""What can be evolved, one study a file."""
