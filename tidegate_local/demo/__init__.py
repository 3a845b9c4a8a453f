"""`make demo`: real data through the whole path, with the mischief that S3 and its users do, and a check at the end."""
