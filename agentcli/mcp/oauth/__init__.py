"""OAuth 2.1 for HTTP servers: finding the authorization server, signing in, tokens.

    token_grant      stored result of a sign-in
    token_store      stores grants in the keyring or a private file
    authorization    one server's sign-in state: tokens, refresh, sign-in, sign-out
    bearer           adds tokens to the requests of a connection
    sign_in          one run of the authorization code flow
    redirect         the listener on 127.0.0.1 that the browser is redirected to
    discovery        from a server's 401 to the metadata of its authorization server
    registration     registers agentcli as a client of an authorization server
    token_requests   exchanges codes, refreshes and revokes tokens
    auth_requests    requests to authorization servers, within limits

The `mcp` library has an `OAuthClientProvider`. Its models and its parsing are used here, but not the class itself: it
holds one lock over every request, so that calls wait for one another; it starts a sign-in in the middle of any request;
and after a restart it knows neither when a token expires nor where to refresh it.
"""
