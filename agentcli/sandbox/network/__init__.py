"""Access to allowed hosts: the proxy outside the sandbox, its port inside, and the machine's own proxy."""
