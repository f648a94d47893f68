"""What can go wrong with the browser interface."""

from quarterdeck.wire.errors import QuarterdeckError

__all__ = [
    "CallKeyError",
    "DeviceStoreError",
    "NoSuchDeviceError",
    "NoWebServerError",
    "PairingError",
    "RoleError",
    "SignInError",
    "UnknownOutcomeError",
    "WebError",
    "WebExtraMissingError",
    "WebServerRunningError",
]


class WebError(QuarterdeckError):
    """Something about the browser interface."""


class WebExtraMissingError(WebError):
    """The packages that serve pages are not installed."""

    def __init__(self, package: str) -> None:
        super().__init__(
            f"the browser interface needs the package {package!r}; install the extra `web`, "
            "from a checkout: pip install -e '.[web]'"
        )


class NoWebServerError(WebError):
    """No web server is running for this home."""

    def __init__(self) -> None:
        super().__init__("no web server is running; `quarterdeck web start` starts one")


class WebServerRunningError(WebError):
    """Another process is the web server of this home."""

    def __init__(self, url: str | None) -> None:
        where = "" if url is None else f" at {url}"
        super().__init__(f"a web server is already running{where}; see `quarterdeck web status`")


class DeviceStoreError(WebError):
    """The list of devices cannot be read or written."""


class NoSuchDeviceError(WebError):
    """No device has this id."""

    def __init__(self, device: str) -> None:
        super().__init__(f"no device {device!r}; `quarterdeck web devices` lists them")


class PairingError(WebError):
    """A pairing code is wrong, used or too old."""

    def __init__(self) -> None:
        super().__init__(
            "this pairing code is wrong, already used or older than ten minutes; "
            "`quarterdeck web pair` makes a new one"
        )


class SignInError(WebError):
    """A request of no device that we know."""

    def __init__(self) -> None:
        super().__init__("this device is not paired; `quarterdeck web pair` shows how")


class RoleError(WebError):
    """A device may not do this."""

    def __init__(self, role: str, needed: str) -> None:
        super().__init__(f"this device is a {role}; this needs the role {needed}")


class CallKeyError(WebError):
    """A key that makes a call happen once was used for two calls."""

    def __init__(self) -> None:
        super().__init__("this `Idempotency-Key` was used for another call; each needs its own")


class UnknownOutcomeError(WebError):
    """A call was begun before and its answer is not known; it is not made again."""

    def __init__(self, *, is_done: bool) -> None:
        what = "was done before" if is_done else "may have been done before the server ended"
        super().__init__(f"not repeated: this {what}; look before you send it again")
