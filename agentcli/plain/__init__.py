"""Layer 5: the line front end. Text is only ever appended; nothing but the prompt's own line moves the cursor.

start       from the command line to the exit code     wanted      whether lines may be wanted, found out at once
session     one prompt at a time, keys during work     front_end   what slash commands can ask of plain mode
session_view  prints what the session driver reports, asks its questions
printer     events to pieces of output, pure           results     what a tool's result looks like, pure
pieces      what is printed, as values                 replay      the end of a conversation that is gone on with
writer      pieces to the terminal                     terminal    what the terminal can do, its modes, its signals
markdown    streamed Markdown, cut where complete      rendering   Markdown as text, by rich
questions   what is asked, and the answers             subject     what a call would do, whole, pure
reading     what the session needs of a keyboard       lines       the prompt where the terminal can do nothing
reader      the prompt on prompt_toolkit               recall      its history and its completions
welcoming   connecting a model
"""
