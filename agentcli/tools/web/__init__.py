"""WebFetch and WebSearch."""
