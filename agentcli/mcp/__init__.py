"""MCP servers: other programs whose tools, resources and prompts a session can use.

    configuration   servers in settings and files: parsing, and text without secrets
    protocol        values that servers and the session exchange, and names of tools for the model
    user_input      forms that servers ask the user to fill in, and URLs that they ask to open
    link            limits of one connection, whether and why it ended, timeouts of calls
    stdio           transport to a server that is a program
    http_transport  the library's HTTP and SSE transports, on a client of ours with limits
    answers         reads answers of servers without trusting them: see contents, schemas
    connection      one connection, over the `mcp` library
    server          one server: its state, calls and restarts
    servers         all servers of a session, and which the user switched on or off
    authorization   a server's tokens, with sign_in (one run of the library's flow) and auth_requests (its guard)
    tool_server     agentcli's own tools as a server, for other programs

The `mcp` library takes a second to import. It is imported inside functions, in a thread, and only if there is a server.
"""
