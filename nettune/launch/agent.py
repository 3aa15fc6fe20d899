"""The code that runs in a rank's process: it takes calls, runs them and streams what they emit.

`python -m nettune.launch.agent forked` is the warm process from which ranks are forked, and `piped` the
one-rank form for hosts that cannot be entered. Standard library only, so that nothing is imported in a rank
that was not asked for.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

from nettune.launch.frames import Decoder, encode

DUMP_SIGNAL = signal.SIGUSR1
"""Makes a rank write the stacks of all its threads to its standard error, also from inside C code."""


class _Channel:
    """This rank's socket to its caller; whole frames only, from any thread."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._decoder = Decoder()
        self._lock = threading.Lock()
        self.call: int | None = None

    def send(self, frame: Mapping[str, Any]) -> None:
        data = encode(frame)
        with self._lock:
            self._link.sendall(data)

    def receive(self) -> list[dict[str, Any]] | None:
        """The next frames, or None when the caller is gone."""
        while True:
            data = self._link.recv(1 << 20)
            if not data:
                return None
            frames = self._decoder.feed(data)
            if frames:
                return frames


_channel: _Channel | None = None


def emit(event: Mapping[str, Any]) -> None:
    """Stream `event` (JSON-able) from inside a work function to the caller's `on_event`; any thread may.

    Raises:
        RuntimeError: no call is running in this process.
        TypeError: the event is not JSON.
    """
    channel = _channel
    if channel is None or channel.call is None:
        raise RuntimeError("emit() works only while a call runs in an agent")
    channel.send({"id": channel.call, "event": event})


def resolve(function: str) -> Any:
    """The object behind "package.module:name".

    Raises:
        ValueError: the text has another form.
        ImportError: the module cannot be imported.
        AttributeError: the module has no such name.
    """
    module, colon, path = function.partition(":")
    if not (module and colon and path):
        raise ValueError(f"a work function is written package.module:function, not {function!r}")
    found: Any = import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    return found


def _answer(channel: _Channel, request: Mapping[str, Any]) -> None:
    channel.call = request["id"]
    try:
        result = resolve(request["function"])(**request["kwargs"])
        try:
            channel.send({"id": request["id"], "result": result})
        except (TypeError, ValueError) as error:
            raise TypeError(f"the result of {request['function']} is not JSON: {error}") from error
    except BaseException as error:  # noqa: BLE001 - also SystemExit must be told to the caller, not obeyed
        kind = type(error)
        channel.send(
            {
                "id": request["id"],
                "error": {
                    "type": kind.__qualname__
                    if kind.__module__ == "builtins"
                    else f"{kind.__module__}.{kind.__qualname__}",
                    "message": str(error),
                    "traceback": _own_traceback(error),
                },
            }
        )
    finally:
        channel.call = None


def _own_traceback(error: BaseException) -> str:
    """The traceback from the work function on, without the frame of this module that called it."""
    trace = error.__traceback__
    return "".join(traceback.format_exception(type(error), error, trace.tb_next if trace else None))


def serve(link: socket.socket, threads: int) -> None:
    """Answer calls until the caller closes the socket."""
    global _channel  # noqa: PLW0603 - emit() has no other way to find the process's one channel
    _channel = channel = _Channel(link)
    _settle(threads)
    channel.send({"ready": os.getpid(), "hostname": socket.gethostname()})
    # A reset connection is a caller that was killed: the same end.
    with contextlib.suppress(ConnectionResetError, BrokenPipeError):
        while (frames := channel.receive()) is not None:
            for request in frames:
                _answer(channel, request)


def _settle(threads: int) -> None:
    """Give loaded libraries, whose state was forked, what each rank must have for itself."""
    faulthandler.register(DUMP_SIGNAL, file=sys.__stderr__ or 2, all_threads=True)
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        # Forked ranks would all draw the same "random" numbers; only `random` reseeds itself.
        numpy_random.seed()
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(threads)


def preload(modules: Iterable[str]) -> dict[str, Any] | None:
    """Import the modules; None when all went well, else the frame that says which one failed and how."""
    for module in modules:
        try:
            import_module(module)
        except Exception as error:  # noqa: BLE001 - a module's own code may raise anything
            return {
                "failed": module,
                "missing": error.name if isinstance(error, ModuleNotFoundError) else None,
                "message": f"{type(error).__name__}: {error}",
                "traceback": traceback.format_exc(),
            }
    return None


def main(arguments: list[str]) -> int:
    """Start the form named by the first argument."""
    from nettune.launch import forking, relaying

    return {"forked": forking.main, "piped": relaying.main}[arguments[0]]()


if __name__ == "__main__":
    # Work functions import this module by its name; running that copy gives them the channel's one home.
    from nettune.launch.agent import main as _main

    sys.exit(_main(sys.argv[1:]))
