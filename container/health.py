"""Health check of the image: ends with 0 if the server on this machine is ready, else with 1.

python health.py PORT
"""

import sys
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

SECONDS = 4


def is_ready(port: int) -> bool:
    """Whether the server answers that it is ready; a proxy of the environment is left alone."""
    try:
        address = f"http://127.0.0.1:{port}/v1/health/ready"
        with build_opener(ProxyHandler({})).open(address, timeout=SECONDS) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError, ValueError):
        return False


if __name__ == "__main__":
    sys.exit(0 if is_ready(int(sys.argv[1])) else 1)
