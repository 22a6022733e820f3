"""The living page: one HTML file that shows a walk offline and explains every number."""
