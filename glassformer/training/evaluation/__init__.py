"""How good a model is: validation, the register of metrics, and how confidence is fitted."""
