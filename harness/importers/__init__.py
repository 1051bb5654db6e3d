"""Into the harness: what foreign servers, profilers and tools have written."""
