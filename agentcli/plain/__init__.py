"""Plain mode: output is only ever appended, and nothing but the prompt's own line moves the cursor.

start             from the command line to the exit code
front_end_choice  whether to run the app or plain mode
session           one prompt at a time, keys during work
session_view      prints events, asks the driver's questions
output/           events to pieces of text (printer, results), Markdown, and the writer to the terminal
prompt/           the interface to the prompt, its two implementations (prompt_toolkit, TERM=dumb), its history
questions/        questions of agentcli and of MCP servers, and the parsing of answers
front_end         what slash commands can ask for
terminal          capabilities, modes and signals
model_connection  connecting a model
"""
