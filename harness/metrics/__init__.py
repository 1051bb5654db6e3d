"""What each number means: one catalogue of names, one definition per latency."""
