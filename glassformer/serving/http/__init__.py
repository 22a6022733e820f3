"""What every request meets, whatever contract it speaks: the door, its parameters, keys and limits."""
