"""What a walk is made of: recorded passes, sentences, edits and what is read off them."""
