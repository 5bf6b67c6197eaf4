"""Layer 5: the front end without a screen. Text, json and stream-json out; text and stream-json in."""
