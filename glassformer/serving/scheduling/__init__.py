"""How requests of all clients become batches, and the processes that translate them."""
