"""The terminal app. Nothing here decides anything: it shows events of the engine and calls its methods.

From the keys to the engine and back:
  instant    the prompt that is there before Textual is        driver     the terminal: bytes in, bytes out
  app        screens, worker, theme                            chat       the one screen: transcript, prompt, status
  keys       every key, in one table                           session    drives the engine, without Textual
  presenter  events -> operations on items (pure)              model      what the transcript shows, as values
  transcript one line-API widget for the whole conversation    blocks/    items -> lines
  prompt/    the editor, history, completion, drafts           screens/   dialogs and pickers
  palette    the styles blocks paint with                      themes     themes from TOML, live
  status     the status line                                   activity   the line that says what goes on
"""
