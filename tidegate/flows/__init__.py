"""What happens, one verb a file. Flows decide with `core` and act through the ports in `ports.py`."""
