"""Raw samples and their environment, append-only, readable after a crash."""
