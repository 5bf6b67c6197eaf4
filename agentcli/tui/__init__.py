"""The terminal app. Nothing here decides anything: it shows events of the engine and calls its methods.

From the keys to the engine and back:
  start       from the command line to a running app          app        screens, engine, theme: the owner of all
  chat        the one screen: transcript, prompt, status      keys       every key of it, in one table
  session     drives the engine, without Textual              actions    what commands and keys do on the screen
  presenter   events -> operations on items (pure)            model      what the transcript shows, as values
  replay      a stored conversation as items                  resuming   its end first, the rest beside
  wording     what the app says about events                  modes      the permission modes, in words
  status      the status line, `statuscommand` one's own      activity   the line that says what goes on
  facts       what the status line shows, off an engine       preferences  what the person chose for the app
  hunks       a change in hunks (pure)                        memory     what stays out of the collector's way
Packages:
  blocks/     items -> lines, one file per kind               transcript/  one line-API widget for all of them
  prompt/     the editor, history, completion, drafts         screens/     dialogs, pickers and pages
  terminal/   keys in, bytes out, the instant prompt          theme/       theme files, shades, the palette
"""
