"""Pictures, PDFs and notebooks: reading them, and NotebookEdit."""
