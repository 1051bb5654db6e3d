"""Grafana boards, Prometheus alerts and their provisioning, built from the catalogue of metrics."""
