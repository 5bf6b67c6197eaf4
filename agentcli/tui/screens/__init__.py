"""Modal screens over the transcript. The toolkit is `sheet`, `picker`, `page` and `dialog`; the rest is a file each."""
