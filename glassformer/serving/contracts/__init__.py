"""The contracts: thin translations of what programs say into orders, and of answers into what they read."""
