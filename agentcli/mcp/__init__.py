"""MCP servers: other programs whose tools, resources and prompts a session can use.

    server_config   configuration of one server (parsed by configuration, shown by description)
    choices         which servers and tools the user switched on or off
    offers          tools, resources and prompts of a server, and results of its calls
    client_duties   requests that a server may make: folders, user input, model replies
    input_form      forms that it asks the user to fill in
    visit_address   URLs that it asks the user to open
    limits          limits on time, memory and attempts; call_clock pauses them during questions
    link            whether a connection has ended, and why
    transport       connects to a server with one of transports/: a program (stdio) or HTTP and SSE
    replies/        reads what servers answer without trusting it, off the event loop
    connection      one connection, over the `mcp` library
    server          one server: its state, calls and restarts
    servers         all servers of a session
    tool_names      names of tools and prompts for the model
    tool_server     agentcli's own tools as a server, for other programs
    oauth/          signing in to HTTP servers

The `mcp` library takes a second to import. It is imported inside functions, in a thread, and only if there is a server.
"""
