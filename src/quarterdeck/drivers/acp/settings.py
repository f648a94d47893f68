"""The agent's own settings: modes, models and options, in the three forms that agents have."""

from collections.abc import Awaitable, Iterable, Iterator
from contextlib import suppress
from typing import Any, Literal, Protocol, TypeAlias

import msgspec
from msgspec.structs import replace

from quarterdeck.wire.acp import schema as acp
from quarterdeck.wire.acp.connection import AcpConnection
from quarterdeck.wire.acp.errors import MalformedAnswerError
from quarterdeck.wire.acp.methods import Method
from quarterdeck.wire.decoders import convert
from quarterdeck.wire.errors import RpcError
from quarterdeck.wire.events import Event, ModeChanged, OptionsChanged, SessionChanged
from quarterdeck.wire.ids import ToolCallId
from quarterdeck.wire.settings import ConfigChoice, ConfigOption, Mode
from quarterdeck.wire.values import AcpValue

from ..agent_process import Launch
from ..driver import DriverSessionOptions
from ..errors import UnsupportedError

__all__ = ["AcpSessionResponse", "AcpSetting", "AcpSettings", "AcpSettingsWriter", "EmitEvent"]

Category: TypeAlias = Literal["mode", "model"]


class AcpSessionResponse(acp.LoadSessionResponse, frozen=True, kw_only=True):
    """The answer to each of the ways to open a session."""

    session_id: str | None = None
    models: Any = None
    """As it was before options: the models, beside the protocol's present version."""


class _Model(AcpValue, frozen=True, kw_only=True):
    model_id: str
    name: str = ""


class _Models(AcpValue, frozen=True, kw_only=True):
    current_model_id: str | None = None
    available_models: tuple[_Model, ...] = ()


class AcpSetting(msgspec.Struct, frozen=True):
    """How a mode or a model is set: through an option, or by the method of its own."""

    value: str
    option: str | None = None
    """The option's id; None: by ``session/set_mode`` or ``session/set_model``."""


class AcpSettings:
    """What the agent can be set to, and what it is set to."""

    def __init__(self, agent: str) -> None:
        self._agent = agent
        self._modes: tuple[Mode, ...] = ()
        self._models = _Models()
        self.options: tuple[ConfigOption, ...] = ()
        self.mode: str | None = None
        self.model: str | None = None

    @property
    def has_modes(self) -> bool:
        """Whether there is a mode to set."""
        return bool(self._modes) or self._option("mode") is not None

    @property
    def has_models(self) -> bool:
        """Whether there is a model to set."""
        return bool(self._models.available_models) or self._option("model") is not None

    def opened(self, answer: AcpSessionResponse) -> Iterator[Event]:
        """Take what an opened session offers."""
        try:
            self._models = convert(answer.models or {}, _Models)
        except msgspec.ValidationError:
            self._models = _Models()
        self.model = self._models.current_model_id
        if answer.modes is not None:
            self._modes = answer.modes.available_modes
            self.mode = answer.modes.current_mode_id
        if answer.config_options:
            self._take(answer.config_options)
            yield OptionsChanged(options=self.options)
        if self.mode is not None:
            yield ModeChanged(mode=self.mode, modes=self._modes or self._modes_of_option() or None)

    def changed(self, options: tuple[ConfigOption, ...]) -> Iterator[Event]:
        """The options are now these."""
        mode, model = self.mode, self.model
        self._take(options)
        yield OptionsChanged(options=options)
        if self.mode is not None and self.mode != mode:
            yield ModeChanged(mode=self.mode)
        if self.model is not None and self.model != model:
            yield SessionChanged(model=self.model)

    def find(self, category: Category, value: str) -> AcpSetting:
        """How to set the mode or the model.

        Raises:
            UnsupportedError: there is none of that name; says which there are.
        """
        option = self._option(category)
        offered = [choice.value for choice in _choices(option)] if option is not None else []
        if option is not None and value in offered:
            return AcpSetting(value, option.id)
        own = self._own(category)
        if value in own:
            return AcpSetting(value)
        known = ", ".join(str(each) for each in dict.fromkeys((*offered, *own)))
        instead = f"It offers {known}." if known else f"It offers no choice of {category}."
        raise UnsupportedError(self._agent, "acp", f"use the {category} {value!r}", instead)

    def check(self, option_id: str, value: str | bool) -> ConfigOption:
        """The option, once it is known that it can have this value.

        Raises:
            UnsupportedError: there is no such option, or it cannot.
        """
        option = next((each for each in self.options if each.id == option_id), None)
        if option is None:
            known = ", ".join(each.id for each in self.options) or "none"
            what = f"set the option {option_id!r}"
            raise UnsupportedError(self._agent, "acp", what, f"Its options are: {known}.")
        offered = [choice.value for choice in _choices(option)]
        fits = isinstance(value, bool) if option.type == "boolean" else value in offered
        if not fits and option.type in ("boolean", "select"):
            known = "true, false" if option.type == "boolean" else ", ".join(map(str, offered))
            what = f"set the option {option_id!r} to {value!r}"
            raise UnsupportedError(self._agent, "acp", what, f"It takes: {known}.")
        return option

    def with_value(self, option_id: str, value: str | bool) -> tuple[ConfigOption, ...]:
        """The options as they are when one of them has another value."""
        return tuple(
            replace(each, current_value=value) if each.id == option_id else each
            for each in self.options
        )

    def _own(self, category: Category) -> list[str]:
        if category == "mode":
            return [mode.id for mode in self._modes]
        return [model.model_id for model in self._models.available_models]

    def _option(self, category: Category) -> ConfigOption | None:
        selects = [each for each in self.options if each.type == "select"]
        for option in selects:
            if option.category == category:
                return option
        return next((o for o in selects if o.id == category and o.category is None), None)

    def _take(self, options: tuple[ConfigOption, ...]) -> None:
        self.options = options
        for category in ("mode", "model"):
            option = self._option(category)
            if option is not None and isinstance(option.current_value, str):
                setattr(self, category, option.current_value)

    def _modes_of_option(self) -> tuple[Mode, ...]:
        option = self._option("mode")
        return tuple(
            Mode(id=choice.value, name=choice.name, description=choice.description)
            for choice in (_choices(option) if option is not None else ())
            if choice.value is not None
        )


def _choices(option: ConfigOption) -> Iterable[ConfigChoice]:
    """The choices of an option, those in groups among them."""
    for choice in option.options or ():
        if choice.options is not None:
            yield from choice.options
        else:
            yield choice


class EmitEvent(Protocol):
    """Takes an event in its place."""

    def __call__(self, event: Event, *, parent: ToolCallId | None = None) -> Awaitable[None]:
        """Return when the next may come."""
        ...


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
