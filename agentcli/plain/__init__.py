"""Plain mode: output is only ever appended, and nothing but the prompt's own line moves the cursor.

start                      from the command line to the exit code
front_end_choice           whether to run the app or plain mode
session                    one prompt at a time, keys during work, printed events
printer, results, pieces   events to pieces of text
writer, markdown           pieces to the terminal; `rendering` renders Markdown with rich
prompt_reader, line_reader the two prompts: prompt_toolkit, and TERM=dumb
questions                  questions of agentcli, the model and MCP servers
front_end                  what slash commands can ask for; connecting a model
terminal                   capabilities, modes and signals
"""
