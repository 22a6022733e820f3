"""What runs a search: PyTorch, worker processes or CTranslate2."""
