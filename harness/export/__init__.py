"""Out of the run: exporters that Prometheus scrapes, and finished runs as OpenMetrics."""
