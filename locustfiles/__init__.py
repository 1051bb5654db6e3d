"""Locustfiles: thin files that pick user classes; no logic lives here."""
