"""What TCP gets over a link, both ways at once: link_rate.py MY_ADDRESS PEER_ADDRESS SECONDS prints the bytes a second received here.

Every host runs it, each with the next host as its peer. The best half second counts, so that other work on the machine is not taken
for the link's limit; the first one never does: the limiter's bucket is full then, and TCP has yet to find the rate.
"""

import socket
import sys
import threading
import time

PORT, WINDOW_S = 5201, 0.5
me, peer, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
server = socket.create_server((me, PORT))
rates = []


def receive():
    connection, _ = server.accept()
    buffer = bytearray(1 << 20)
    begin, received = time.monotonic(), 0
    while size := connection.recv_into(buffer):
        received += size
        now = time.monotonic()
        if now - begin >= WINDOW_S:
            rates.append(received / (now - begin))
            begin, received = now, 0


receiver = threading.Thread(target=receive)
receiver.start()
deadline = time.monotonic() + 10
while True:
    try:
        connection = socket.create_connection((peer, PORT), timeout=10)
        break
    except OSError:
        if time.monotonic() > deadline:
            raise
        time.sleep(0.05)
block = bytes(1 << 20)
end = time.monotonic() + WINDOW_S + seconds
while time.monotonic() < end:
    connection.sendall(block)
connection.close()
receiver.join()
print(round(max(rates[1:])))
