"""Layer 5: the line front end. Text is only ever appended; nothing but the prompt's own line moves the cursor.

start       from the command line to the exit code     terminal    what the terminal can do, its modes, its signals
session     the conversation: prompts, work, Esc       commands    slash commands that the app does on its screen
printer     events to pieces of output, pure           results     what a tool's result looks like, pure
writer      pieces to the terminal                     markdown    streamed Markdown, cut into blocks that are complete
questions   what is asked, and the answers             subject     what a call would do, whole, pure
reader      the prompt on prompt_toolkit               lines       the prompt where the terminal can do nothing
welcoming   connecting a model                         replay      the end of a conversation that is gone on with
"""
