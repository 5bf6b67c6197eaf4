"""The terminal under and around the app: keys in, bytes out, modes on and off, the prompt before Textual is there.

instant      the prompt that is there before Textual is     driver        bytes to events, frames to bytes
input        bytes -> tokens (pure)                         translation   tokens -> Textual's messages
pacing       keys act in the order they were pressed        writer        never holds up the event loop
restore      the terminal as it was, whatever happens       ending        signals that end the process
watchdog     what blocks the loop, and Esc all the same     freeing       the app survives that
capabilities what the terminal can do                       surroundings  title, progress, notifications, clipboard
lookkeeping  keeps how the app looks for the next start
"""
