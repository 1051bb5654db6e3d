"""GPUs through NVML: readings, events and topology; nothing is served from here."""
