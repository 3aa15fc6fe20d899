"""Records and results in; HTML, text, JSON and figures out."""
