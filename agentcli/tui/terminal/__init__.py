"""The terminal: keys in, bytes out, modes on and off, and the prompt that is shown before Textual is loaded.

instant      the prompt before Textual is loaded            driver        bytes to events, frames to bytes
input        bytes -> tokens (pure)                         translation   tokens -> Textual's messages
key_order    keys act in the order they were pressed        writer        never holds up the event loop
restore      the terminal as it was, whatever happens       ending        signals that end the process
capabilities what the terminal can do                       surroundings  title, progress, notifications, clipboard
saved_look   keeps how the app looks for the next start
"""
