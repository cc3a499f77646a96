"""What learners are made of: losses, networks, returns, memories, exploration, normalisation."""
