"""The Linux sandbox: bubblewrap, its mounts and system call filter."""
