"""The terminal app, built on Textual. It displays engine events and calls engine methods; it makes no agent decisions.

From the keys to the engine and back:
  start       from the command line to a running app          app        owns the screens, the engine and the theme
  chat        the main screen: transcript, prompt, status     keys       table of all screen key bindings
  session     the session driver and the app's view of it     actions    actions of keys and prompt lines
  presenter   events -> operations on items (pure)            model      transcript items and operations, as values
  front_end   the FrontEnd interface for slash commands       modes      display names of the permission modes
  resume      a stored conversation as items                  agent_progress, agent_presenters   sub-agents, as values
  frame_clock schedules repaints                              cursor_cell  position of the terminal's cursor
  answer_pieces  answers continued in another reply           at_work    widgets that report whether they are busy
  textual_internals  the private Textual names in use
Packages:
  blocks/     items -> lines, one file per kind               transcript/  one line-API widget for all of them
  prompt/     the prompt box: editor, completion menu         status/      status line, its data, activity line
  sheets/     toolkit of dialogs, pickers and pages           dialogs/     questions to the user
  pickers/    lists to choose from                            pages/       pages to read and search
  startup/    preferences, connecting a model, the tour       theme/       theme files, shades, the palette
  terminal/   keys in, bytes out, the instant prompt          repaint/     turns frames into output of changed cells
"""
