"""The terminal app, built on Textual. It displays engine events and calls engine methods; it makes no agent decisions.

From the keys to the engine and back:
  start       from the command line to a running app          app        owns the rest: screens, frames, quitting
  chat        the one screen: transcript, prompt, status      keys       every key, in two tables
  session     the session driver with the app's view          repaint    bytes only for cells that changed
  presenter   events -> operations on items (pure)            model      what the transcript shows, as values
  front_end   what slash commands can ask of the app          modes      the permission modes, in words
  resume      a stored conversation as items                  progress   activity and sub-agents, as values
  theme_control   the theme, applied to all screens           glyphs     widths of text, characters, rows
  textual_internals   private names of Textual
Packages:
  blocks/     items -> lines, one file per kind               transcript/  one line-API widget for all of them
  prompt/     the prompt box: editor, completion menu         status/      status line, its data, activity line
  screens/    dialogs, lists and pages, and their toolkit
  startup/    preferences, opening sessions, the tour         theme/       theme files, shades, the palette
  terminal/   keys in, bytes out, the instant prompt
"""
