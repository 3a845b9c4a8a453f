"""The flows, one verb for each file. They decide with `core` and act through the ports in `ports.py`."""
