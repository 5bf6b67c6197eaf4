"""Read and NotebookEdit, and the kinds of files besides text: pictures, PDFs and notebooks."""
