"""Output of plain mode: events to pieces, pieces to text, text to the terminal."""
