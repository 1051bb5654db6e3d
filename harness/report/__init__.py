"""Findings to people and machines: report.json, report.html and their pictures."""
