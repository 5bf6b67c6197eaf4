"""Read images, PDFs and notebooks; NotebookEdit."""
