"""The measuring HTTP client: receive stamps, SSE decoding, API adapters. Knows no Locust."""
