"""Read and NotebookEdit, and the file kinds besides text: images, PDFs and notebooks."""
