"""Plain mode: the front end that only appends lines. Only the prompt's own line moves the cursor.

start       life cycle, from flags to exit code       front_end_choice  quick guess whether plain mode is chosen
session     one prompt at a time, keys during work    session_view      prints the session driver's reports, asks
front_end   plain mode's side of slash commands       replay            prints the end of a resumed conversation
printer     events to output pieces, pure             results           tool results to output pieces, pure
pieces      output pieces as values                   writer            output pieces to the terminal
markdown    splits streamed Markdown                  rendering         Markdown to text with rich
asking      choices and text answers                  questions         permissions, questions, plans, trust
subject     what a tool call would do, pure           server_questions  questions of MCP servers
reading     keyboard protocols                        reader            the prompt on prompt_toolkit
lines       the prompt for TERM=dumb                  recall            history and completions of the prompt
terminal    terminal capabilities, modes, signals     welcoming         connecting a model
"""
