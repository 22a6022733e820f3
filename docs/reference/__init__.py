"""The reference pages, each made from the code; knows nothing of the pages that people write."""
