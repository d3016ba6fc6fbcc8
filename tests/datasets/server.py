"""A web server on the loopback interface that answers as it is told."""

import contextlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


class Answers:
    """What the server says: for each path a list of answers, the last one again and again."""

    def __init__(self, address):
        self.address = address
        self.answers = {}
        self.asked = []

    def add(self, path, *answers):
        """Answers are bytes, a status, or a function of the handler; returns the path's address."""
        self.answers[path] = list(answers)
        return self.address + path

    def next(self, path):
        self.asked.append(path)
        answers = self.answers.get(path, [404])
        return answers.pop(0) if len(answers) > 1 else answers[0]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        answer = self.server.answers.next(self.path)
        self.close_connection = True
        if callable(answer):
            answer(self)
        elif isinstance(answer, int):
            self.say(answer)
        else:
            self.say(200, answer)

    def say(self, status, content=b"", length=None, **headers):
        self.send_response(status)
        self.send_header("Content-Length", str(len(content) if length is None else length))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments):
        pass


@contextlib.contextmanager
def serving():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.answers = Answers(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server.answers
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def server(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with serving() as answers:
        yield answers
