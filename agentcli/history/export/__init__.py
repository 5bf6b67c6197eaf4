"""Sessions as Markdown, JSON, one HTML file, or a bundle for a bug report."""
