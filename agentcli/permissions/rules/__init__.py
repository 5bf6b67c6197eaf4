"""Permission rules: parsing, matching and suggestions."""
