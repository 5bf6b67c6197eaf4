"""The non-interactive front end. Output as text, json and stream-json; input as text and stream-json."""
