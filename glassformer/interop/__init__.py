"""Models and tokenizers of other tools, in and out."""
