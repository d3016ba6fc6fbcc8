"""Files of saved objects that are looked into, changed, and signed again."""

from legendretron._internal.artifacts import load_state, read_kind, save_state


def read(path):
    """The state that a file holds."""
    return load_state(path, {read_kind(path): lambda state: state})


def write(path, kind, state):
    """Write a file whose checksum is right, whatever is in it."""
    save_state(path, kind, state)


def forge(path, change):
    """Change the state in a file by a function, and sign it again."""
    kind, state = read_kind(path), read(path)
    change(state)
    write(path, kind, state)
