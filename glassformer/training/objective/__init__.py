"""What a training minimises: the smoothed loss, and its fast form."""
