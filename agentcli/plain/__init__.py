"""Plain mode: output is only ever appended, and nothing but the prompt's own line moves the cursor.

start         from the command line to the exit code    front_end_choice  whether to run the app or plain mode
session       one prompt at a time, keys during work    session_view      prints events, asks the driver's questions
printer       events to pieces of output (pure)         results           tool results as pieces (pure)
pieces        what is printed, as values                replay            the end of a resumed session
writer        pieces to the terminal                    terminal          capabilities, modes and signals
markdown      streamed Markdown, cut where complete     rendering         Markdown as text, by rich
questions     questions of agentcli and their answers   server_questions  questions of MCP servers
asking        parsing of answers: choices, text         subject           what a call would do, in full (pure)
reader        the interface to the prompt               recall            history and completions
prompt_reader the prompt on prompt_toolkit              line_reader       the prompt for TERM=dumb
front_end     what slash commands can ask for           welcoming         connecting a model
"""
