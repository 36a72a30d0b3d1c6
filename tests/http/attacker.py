"""A process that attacks a server on loopback: ``python attacker.py WS_PORT HTTP_PORT``.

Holds 200 half-open WebSocket handshakes and 100 requests whose head never ends, says ``ready``,
then sends wrong things until its input ends.
"""

from __future__ import annotations

import http.client
import select
import socket
import sys

HALF = b"GET /xiaozhi/v1/ HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgra"
SLOW = b"POST /speak HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "
BAD: list[tuple[str, str, dict[str, str]]] = [
    ("POST", "/speak", {"Origin": "http://evil.example"}),
    ("POST", "/speak", {"Host": "rebound.example"}),
    ("GET", "/metrics", {"X-Forwarded-For": "1.1.1.1"}),
    ("GET", "/v1/models", {"Authorization": "Bearer expired", "Via": "x"}),
    ("POST", "/xiaozhi/ota/", {"Device-Id": "x" * 400}),
    ("POST", "/v1/audio/transcriptions", {"Content-Type": "multipart/form-data; boundary=x"}),
]


def hold(port: int, data: bytes, count: int) -> list[socket.socket]:
    held = []
    for _ in range(count):
        one = socket.create_connection(("127.0.0.1", port), timeout=5)
        one.sendall(data)
        held.append(one)
    return held


def pester(port: int, method: str, target: str, headers: dict[str, str]) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request(method, target, b'{"text": "x"}', headers)
        return connection.getresponse().status
    except OSError:
        return 0
    finally:
        connection.close()


def main() -> None:
    websocket_port, http_port = int(sys.argv[1]), int(sys.argv[2])
    held = hold(websocket_port, HALF, 200) + hold(http_port, SLOW, 100)
    print("ready", flush=True)
    while not select.select([sys.stdin], [], [], 0.02)[0]:
        for bad in BAD:
            status = pester(http_port, *bad)
            if not 200 <= status < 500:
                print("status", status, bad[1], flush=True)
    for one in held:
        one.close()


if __name__ == "__main__":
    main()
