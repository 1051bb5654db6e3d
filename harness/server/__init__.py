"""The reference inference server: small, readable, every millisecond accounted for."""
