"""The prompt of plain mode: reading lines, its history and completions."""
