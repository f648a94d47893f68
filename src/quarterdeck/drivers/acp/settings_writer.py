"""Telling the agent to use another mode, another model, another value of an option."""

from contextlib import suppress

from quarterdeck.wire.acp import schema as acp
from quarterdeck.wire.acp.connection import AcpConnection
from quarterdeck.wire.acp.errors import MalformedAnswerError
from quarterdeck.wire.acp.methods import Method
from quarterdeck.wire.errors import RpcError
from quarterdeck.wire.events import ModeChanged, SessionChanged
from quarterdeck.wire.settings import ConfigOption
from quarterdeck.wire.values import AcpValue

from ..agent_process import Launch
from ..driver import DriverSessionOptions
from ..errors import UnsupportedError
from .settings import AcpSettings
from .updates import EmitEvent

__all__ = ["AcpSettingsWriter"]


class _OptionSet(AcpValue, frozen=True, kw_only=True):
    """The answer to a set option; some agents leave the options out of it."""

    config_options: tuple[ConfigOption, ...] | None = None


_SET_OPTION: Method[acp.SetSessionConfigOptionRequest, _OptionSet] = Method(
    name=acp.SESSION_SET_CONFIG_OPTION.name,
    params=acp.SetSessionConfigOptionRequest,
    result=_OptionSet,
    side="agent",
)
_SET_MODEL = "session/set_model"
"""Of the protocol before options; several agents have only this."""


class AcpSettingsWriter:
    """Sets what ``AcpSettings`` found, and tells what has changed.

    Each method raises ``UnsupportedError`` for what the agent does not offer or refuses, and
    ``LinkError`` when it is gone.
    """

    def __init__(
        self,
        agent: str,
        session: str,
        connection: AcpConnection,
        settings: AcpSettings,
        emit: EmitEvent,
    ) -> None:
        self._agent = agent
        self._session = session
        self._connection = connection
        self._settings = settings
        self._emit = emit

    async def begin(
        self, launch: Launch, opening: DriverSessionOptions, able: acp.SessionCapabilities
    ) -> None:
        """Set what was asked for and has not been set on the command line."""
        if opening.options.model is not None and "model" not in launch.words:
            await self.model(opening.options.model)
        if opening.options.agent_mode is None:
            await self._begin_asking(launch.asking_modes)
        elif opening.options.agent_mode not in launch.agent_modes:
            await self.mode(opening.options.agent_mode)
        if opening.title is not None and able.title is not None:
            request = acp.SetSessionTitleRequest(session_id=self._session, title=opening.title)
            with suppress(RpcError, MalformedAnswerError):  # the title is ours in any case
                await self._connection.call(acp.SESSION_SET_TITLE, request)

    async def _begin_asking(self, modes: tuple[str, ...]) -> None:
        """Have it in a mode in which it asks, and believe only what it says of itself."""
        if not modes or self._settings.mode is None or self._settings.mode in modes:
            return
        began = self._settings.mode
        await self.mode(modes[0])
        if self._settings.mode not in modes:
            text = f"It started in {began!r} and reports that it is in {self._settings.mode!r} now."
            raise UnsupportedError(self._agent, "acp", f"be set to its mode {modes[0]!r}", text)

    async def mode(self, mode: str) -> None:
        """Use another mode."""
        setting = self._settings.find("mode", mode)
        if setting.option is not None:
            await self._option(setting.option, mode)
            return
        request = acp.SetSessionModeRequest(session_id=self._session, mode_id=mode)
        try:
            await self._connection.call(acp.SESSION_SET_MODE, request)
        except (RpcError, MalformedAnswerError) as error:
            raise self._refused(f"use the mode {mode!r}", error) from error
        if self._settings.mode != mode:
            self._settings.mode = mode
            await self._emit(ModeChanged(mode=mode))

    async def model(self, model: str) -> None:
        """Use another model."""
        setting = self._settings.find("model", model)
        if setting.option is not None:
            await self._option(setting.option, model)
            return
        body = {"sessionId": self._session, "modelId": model}
        try:
            await self._connection.peer.request(_SET_MODEL, body)
        except RpcError as error:
            raise self._refused(f"use the model {model!r}", error) from error
        self._settings.model = model
        await self._emit(SessionChanged(model=model))

    async def option(self, option: str, value: str | bool) -> None:
        """Set an option."""
        self._settings.check(option, value)
        await self._option(option, value)

    async def _option(self, option: str, value: str | bool) -> None:
        request = acp.SetSessionConfigOptionRequest(
            session_id=self._session,
            config_id=option,
            value=value,
            type="boolean" if isinstance(value, bool) else None,
        )
        try:
            answer = await self._connection.call(_SET_OPTION, request)
        except (RpcError, MalformedAnswerError) as error:
            raise self._refused(f"set {option!r} to {value!r}", error) from error
        options = answer.config_options or self._settings.with_value(option, value)
        for event in self._settings.changed(options):
            await self._emit(event)

    def _refused(self, what: str, error: RpcError | MalformedAnswerError) -> UnsupportedError:
        text = error.message if isinstance(error, RpcError) else str(error)
        return UnsupportedError(self._agent, "acp", what, f"It says: {text}")
