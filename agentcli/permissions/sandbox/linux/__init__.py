"""The Linux sandbox: bubblewrap, its mounts, system call filter and resource limits."""
