"""How clients of AWS are configured."""

from botocore.config import Config

HURRIED = Config(connect_timeout=2, read_timeout=5, retries={"mode": "standard", "total_max_attempts": 2})
"""For EventBridge. The default timeouts of a minute would use up a run of settling, or of a job; what is not sent is
sent again, or found without it."""
