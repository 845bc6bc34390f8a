"""What the Python services of `bench services` have in common: the values of keys, and HTTP on loopback."""
import http.server


def value(key, words):
    """Text of `words` times 8 characters, each eight of them twice; the bench knows it, too."""
    state = (key * 2654435761 + 12345) & 0xFFFFFFFF
    parts = []
    for _ in range(words // 2):
        state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
        parts.append("%08x" % state * 2)
    return "".join(parts)


def serve(port, get):
    """Answers GET /KEY with the text `get(KEY)`, by a thread a client."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = 65536

        def do_GET(self):
            body = get(int(self.path[1:])).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_words):
            pass

    http.server.ThreadingHTTPServer(("127.0.0.1", int(port)), Handler).serve_forever()
