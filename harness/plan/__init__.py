"""Scenario to Plan: every intended send, decided by the seed alone, before anything runs."""
