"""Parts of learners: losses, networks, returns, memories, exploration, normalisation."""
