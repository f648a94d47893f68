"""Signatures of capsules: made and checked by ``ssh-keygen -Y``, over the manifest's bytes.

The manifest names every part by its digest, so its signature is one of the whole file. Keys are the
person's own SSH keys; who may sign is said by a file of allowed signers, as for git. Everything
here blocks.
"""

import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Literal

from msgspec import Struct

from quarterdeck.system.environment import child_environment, find_own_program

from .errors import CapsuleRefusedError, SignatureError

__all__ = ["NAMESPACE", "CapsuleSignature", "check_signature", "sign_manifest"]

NAMESPACE = "capsule@quarterdeck"
_SECONDS = 30
_TO_TYPE = 300
"""Seconds that a person has to type a passphrase, or to touch a key."""
_KEY = re.compile(r"SHA256:[A-Za-z0-9+/=]+")


class CapsuleSignature(Struct, frozen=True, kw_only=True):
    """Who signed a capsule, as far as is known here."""

    state: Literal["none", "good", "unknown"]
    """``unknown``: it is whole, and no allowed signer's."""
    signer: str | None = None
    key: str | None = None
    """The fingerprint."""

    def describe(self) -> str:
        """In words, for people."""
        if self.state == "none":
            return "not signed"
        if self.state == "good":
            return f"signed by {self.signer} ({self.key})"
        return f"signed by a key that is not among the allowed signers ({self.key})"


def sign_manifest(manifest: bytes, key: Path) -> bytes:
    """The signature, as text. ``key``: a private key, or a public one whose private key an SSH
    agent holds.

    Raises:
        SignatureError: ssh-keygen is missing, or cannot use the key.
    """
    if not key.is_file():
        raise SignatureError(f"there is no key {str(key)!r}; give the path of an SSH key")
    words = ("-Y", "sign", "-q", "-n", NAMESPACE, "-f", str(key))
    done = _run(words, manifest, inherit=("SSH_AUTH_SOCK",), seconds=_TO_TYPE)
    if done.returncode or not done.stdout.startswith(b"-----BEGIN SSH SIGNATURE-----"):
        raise SignatureError(f"ssh-keygen cannot sign with {str(key)!r}: {_words(done)}")
    return done.stdout


def check_signature(
    manifest: bytes, signature: bytes | None, allowed: Path | None
) -> CapsuleSignature:
    """Check a signature; ``allowed``: the file of allowed signers, if there is one.

    Raises:
        CapsuleRefusedError: it is not one of this manifest.
        SignatureError: ssh-keygen is missing, or the file cannot be read.
    """
    if signature is None:
        return CapsuleSignature(state="none")
    with tempfile.TemporaryDirectory(prefix="quarterdeck-capsule-") as folder:
        path = Path(folder, "signature")
        path.write_bytes(signature)
        words = ("-Y", "check-novalidate", "-n", NAMESPACE, "-s", str(path))
        done = _run(words, manifest)
        if done.returncode:
            raise CapsuleRefusedError("bad signature", _words(done))
        named = _KEY.search(done.stdout.decode("utf-8", "replace"))
        key = named[0] if named is not None else None
        signer = _find_signer(manifest, path, allowed) if allowed is not None else None
    if signer is None:
        return CapsuleSignature(state="unknown", key=key)
    return CapsuleSignature(state="good", signer=signer, key=key)


def _find_signer(manifest: bytes, signature: Path, allowed: Path) -> str | None:
    if not allowed.is_file():
        raise SignatureError(f"there is no file of allowed signers {str(allowed)!r}")
    files = ("-s", str(signature), "-f", str(allowed))
    found = _run(("-Y", "find-principals", *files), b"")
    if found.returncode:
        return None
    for signer in found.stdout.decode("utf-8", "replace").split("\n"):
        for name in filter(None, signer.split(",")):
            words = ("-Y", "verify", "-n", NAMESPACE, "-I", name, *files)
            if not _run(words, manifest).returncode:
                return name
    return None


def _run(
    words: tuple[str, ...], given: bytes, *, inherit: tuple[str, ...] = (), seconds: int = _SECONDS
) -> "subprocess.CompletedProcess[bytes]":
    program = find_own_program("ssh-keygen", [os.getcwd()])  # noqa: PTH109 - none of a project's
    if program is None:
        raise SignatureError("ssh-keygen is not installed; install OpenSSH to use signatures")
    try:
        return subprocess.run(
            (program, *words),
            input=given,
            capture_output=True,
            env=child_environment(inherit=inherit),
            timeout=seconds,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SignatureError(f"ssh-keygen cannot be run: {error}") from error


def _words(done: "subprocess.CompletedProcess[bytes]") -> str:
    lines = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines()
    return lines[-1][:300] if lines else f"it failed with code {done.returncode}"
