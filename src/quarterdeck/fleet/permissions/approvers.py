"""Who answers a request: people, by the credentials of their client.

The host binds a name to a connection by what the operating system says about its other end; what a
client says about itself counts for nothing. An agent is never a person. A device that is paired
with the browser interface is the person it was paired for, where the settings say so.
"""

import asyncio
import os
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from msgspec import Struct

from quarterdeck.config.schema import PersonSettings
from quarterdeck.policy.approvers import list_approvers
from quarterdeck.policy.permission_options import choice_of
from quarterdeck.wire.events import PermissionApproved, PermissionAsked
from quarterdeck.wire.permissions import ApprovalRule, option_of_kind

from ..errors import NotAnApproverError
from ..names import looks_like_id

__all__ = ["Approvers", "ClientCredentials", "agree_on_option", "answer_for_client"]


class ClientCredentials(Struct, frozen=True, kw_only=True):
    """What is certain about the client that a call comes from."""

    uid: int | None = None
    """Its user on this machine; None: not known."""
    device: str | None = None
    """The person and the device that the browser interface calls for: ``ann (phone)``."""


_client: ContextVar[ClientCredentials | None] = ContextVar("quarterdeck_client", default=None)


@contextmanager
def answer_for_client(credentials: ClientCredentials) -> Generator[None]:
    """What is called within, and tasks that are started within, come from this client."""
    token = _client.set(credentials)
    try:
        yield
    finally:
        _client.reset(token)


class Approvers:
    """Finds out which person answers. ``load_people`` reads the user's own settings, in a thread;
    it raises ConfigError where they are wrong.
    """

    def __init__(self, load_people: Callable[[], Mapping[str, PersonSettings]]) -> None:
        self._load_people = load_people

    async def identify(self, rules: Iterable[ApprovalRule], by: str) -> str:
        """The name of the person whose client this is, one of those that a request needs.

        ``by``: what the client calls itself; only that it is an agent is believed.

        Raises:
            NotAnApproverError: it is no one of them.
            ConfigError: the user's settings cannot be read.
        """
        needed = list_approvers(rules)
        if looks_like_id(by):
            raise NotAnApproverError("an agent cannot answer this request", needed)
        client = _client.get() or ClientCredentials(uid=os.getuid())
        people = await asyncio.to_thread(self._load_people)
        try:
            name = _find_person(people, client)
        except LookupError as error:
            raise NotAnApproverError(str(error), needed) from error
        if name not in needed:
            raise NotAnApproverError(f"{name!r} cannot answer this request", needed)
        return name


def _find_person(people: Mapping[str, PersonSettings], client: ClientCredentials) -> str:
    """Raises LookupError: the client is no person, with the reason as text."""
    if client.device is not None:
        # A device cannot choose what stands before the first bracket: the person stands first.
        name = client.device.partition(" (")[0]
        if name not in people:
            raise LookupError(f"{name!r} is no person in the settings (`people`)")
        if not people[name].devices:
            raise LookupError(f"devices do not answer for {name!r} (`people.{name}.devices`)")
        return name
    found = (name for name, one in people.items() if one.uid is not None and one.uid == client.uid)
    name = next(found, None)
    if name is None:
        who = "a client without a user" if client.uid is None else f"user {client.uid}"
        raise LookupError(f"{who} is no person in the settings (`people`)")
    return name


def agree_on_option(asked: PermissionAsked, approved: tuple[PermissionApproved, ...]) -> str:
    """The option that all who allowed a request chose; where they chose others, this call only."""
    options = {one.option for one in approved}
    meanings = {
        (choice.scope, choice.patterns)
        for choice in (choice_of(asked.options, one) for one in options)
    }
    if len(meanings) == 1:
        return approved[-1].option
    once = option_of_kind(asked.options, "allow_once")
    return once if once is not None else approved[-1].option
