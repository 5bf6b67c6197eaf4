"""The terminal: keys in, bytes out, modes on and off, and the prompt that is shown before Textual is loaded.

instant      the prompt before Textual is loaded            driver        bytes to events, frames to bytes
input        bytes -> tokens (pure)                         translation   tokens -> Textual's messages
pacing       keys act in the order they were pressed        writer        output that never blocks the event loop
restore      restores the terminal, whatever happens        ending        exit on signals and a lost terminal
watchdog     interrupts callbacks that block Esc            freeing       keeps the app alive after that
capabilities escape sequences for title, clipboard, ...     surroundings  title, progress, notifications, clipboard
lookkeeping  saves the look for the next instant prompt     exit_text     text left on the normal screen
"""
