import errno
import hashlib
import os
import socket

import pytest

from legendretron.datasets.downloading import DownloadError, download

CONTENT = bytes(range(256)) * 4000  # several chunks
DIGEST = hashlib.sha256(CONTENT).hexdigest()


def files_in(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_download_with_progress(server, tmp_path):
    url, seen = server.add("/file", CONTENT), []
    path = tmp_path / "new" / "folder" / "file"
    assert download(url, path, DIGEST.upper(), progress=lambda *state: seen.append(state)) == path
    assert path.read_bytes() == CONTENT
    assert files_in(path.parent) == ["file"]
    assert [total for _, total in seen] == [len(CONTENT)] * len(seen)
    done = [count for count, _ in seen]
    assert len(done) > 1
    assert done == sorted(done)
    assert done[-1] == len(CONTENT)


def test_a_length_that_the_server_does_not_say(server, tmp_path):
    def chunked(handler):
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        handler.wfile.write(b"5\r\nhello\r\n0\r\n\r\n")

    seen = []
    download(server.add("/file", chunked), tmp_path / "file", progress=lambda *state: seen.append(state))
    assert (tmp_path / "file").read_bytes() == b"hello"
    assert seen == [(5, None)]


def test_a_refusal(server, tmp_path):
    url = server.add("/file", 503)
    with pytest.raises(DownloadError, match="HTTP Error 503") as caught:
        download(url, tmp_path / "file")
    assert url in str(caught.value)
    assert isinstance(caught.value, ValueError)
    assert files_in(tmp_path) == []


def cut(handler):
    handler.say(200, CONTENT[:300_000], length=len(CONTENT))


def cut_chunked(handler):
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    handler.wfile.write(b"ff\r\nhello")


def silent(handler):
    handler.connection.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("fault", [cut, cut_chunked, silent])
def test_a_connection_that_is_cut_off(server, tmp_path, fault):
    (tmp_path / "file").write_bytes(b"old")
    with pytest.raises(DownloadError, match="could not be downloaded"):
        download(server.add("/file", fault), tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"old"
    assert files_in(tmp_path) == ["file"]


def test_a_server_that_says_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("legendretron.datasets.downloading._TIMEOUT", 0.2)
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        with pytest.raises(DownloadError, match="timed out"):
            download(f"http://127.0.0.1:{mute.getsockname()[1]}/file", tmp_path / "file")


def test_a_wrong_checksum(server, tmp_path):
    url = server.add("/file", CONTENT)
    with pytest.raises(ValueError, match="checksum") as caught:
        download(url, tmp_path / "file", "0" * 64)
    for part in (url, DIGEST, "0" * 64):
        assert part in str(caught.value)
    assert files_in(tmp_path) == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
@pytest.mark.parametrize("content", [CONTENT, b"little"], ids=["in writing", "in flushing"])
def test_a_full_disk(server, tmp_path, monkeypatch, content):
    temporary = tmp_path / "temporary"

    def full(_):
        temporary.symlink_to("/dev/full")
        return open(temporary, "wb")

    monkeypatch.setattr("legendretron._internal.files._open_beside", full)
    with pytest.raises(DownloadError, match="No space left") as caught:
        download(server.add("/file", content), tmp_path / "file")
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__.errno == errno.ENOSPC
    assert files_in(tmp_path) == []
    assert len(server.asked) == 1


def test_an_interrupted_download_leaves_nothing(server, tmp_path):
    def interrupt(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        download(server.add("/file", CONTENT), tmp_path / "file", progress=interrupt)
    assert files_in(tmp_path) == []


@pytest.mark.parametrize("url", [
    "http://example.org/file", "ftp://example.org/file", "file:///etc/hostname", "data:,hello", "https:///file",
    "letter.scale", "http://127.0.0.1.example.org/file",
])  # fmt: skip
def test_addresses_that_are_not_https(tmp_path, url):
    with pytest.raises(DownloadError, match="not an HTTPS address"):
        download(url, tmp_path / "file")


def test_redirects(server, tmp_path):
    server.add("/file", CONTENT)
    url = server.add("/here", lambda handler: handler.say(302, Location="/file"))
    download(url, tmp_path / "file", DIGEST)
    assert server.asked == ["/here", "/file"]
