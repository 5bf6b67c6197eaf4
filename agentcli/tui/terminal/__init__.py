"""The terminal: keys in, bytes out, modes on and off, and the prompt that is shown before Textual is loaded.

instant      the prompt before Textual is loaded            driver        bytes to events in order, frames to bytes
input        bytes to Textual's messages                    output        frames, title, notifications, clipboard
restore      the terminal as it was, whatever happens       exit_text     what stays on the normal screen afterwards
"""
