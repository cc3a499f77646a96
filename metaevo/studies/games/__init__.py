"""Games between learners: opponent shaping and cheap talk."""
