"""The toolkit of dialogs, pages and pickers: the frame, its rows, its keys, searching and typing in it."""
