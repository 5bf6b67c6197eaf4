"""MCP servers: other programs whose tools, resources and prompts a session can use.

server_config   what a configuration says about a server
offers          what a server offers, and what its calls return
client_duties   what a server may ask of the user
input_form      the forms that it asks the user to fill in
visit_address   the addresses that it asks the user to open
limits          how much time, memory and tries a server may take
link            whether a connection has ended, and why
transport       the ways to reach one: a program (stdio, server_program), HTTP and SSE (http_client)
streams         the messages between a transport and the library
answers         what servers answer, taken out of the messages (large_json, offer_reading, result_reading,
                schema_check, plain_schema)
connection      one connection, over the `mcp` library
server          one server: its state, its calls, its restarts
servers         all servers of a session
serving         our own tools as a server, for other programs

The `mcp` library takes a second to import. It is imported inside functions, in a thread, and only if there is a server.
"""
