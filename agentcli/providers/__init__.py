"""Layer 2: requests to a model. `base` is the contract that the other modules implement.

provider                   one request with its retries and limits for silence
body                       the bytes of a request
transports/                how they are sent and the reply is received: our own client; the anthropic package for clouds
catalog                    names, prices and limits of models
listing, local_servers     models that a server lists; key checks
script                     a model that plays a script, for tests and the demo
"""
