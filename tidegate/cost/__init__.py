"""What a deployment's traffic costs in an account: counted requests, assumed times, list prices. Pure; asks nobody."""
