"""The living page: one HTML file that shows a walk, works without a network, and explains every number in it."""
