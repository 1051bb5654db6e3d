"""What is wanted: a TOML file becomes a validated Scenario, or every problem at once."""
