"""One module a chart; each takes numbers and gives a `reports.document.Figure`. They import matplotlib when they draw."""
