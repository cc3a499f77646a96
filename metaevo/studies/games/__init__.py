"""Games between learners: opponent shaping, the Coin Game and cheap talk."""
