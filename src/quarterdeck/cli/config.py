"""``quarterdeck config``: show, check and change the settings."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from quarterdeck.config.errors import ConfigError
from quarterdeck.config.places import Places

from .output import echo

if TYPE_CHECKING:
    from quarterdeck.config.loader import Config
    from quarterdeck.config.trust import TrustStore
    from quarterdeck.config.writer import SettingScope

__all__ = ["config"]

as_json_option = click.option("--json", "as_json", is_flag=True, help="Write one JSON object.")


@click.group()
def config() -> None:
    """Show, check and change the settings.

    The layers, from the lowest: defaults, your file, the project's file, its local file,
    QUARTERDECK_ variables, flags.
    """


@config.command()
@as_json_option
def path(as_json: bool) -> None:
    """Show where files are stored, whether they exist or not."""
    from quarterdeck.config.workspace import find_workspace

    places, workspace = Places.find(), find_workspace(_here())
    folder = workspace.folder or workspace.project / ".quarterdeck"
    setting_rows = {
        "user file": places.config_file,
        "project file": folder / "config.toml",
        "local file": folder / "config.local.toml",
        "state": places.state,
        "cache": places.cache,
        "runtime": places.runtime,
    }
    if as_json:
        _echo_json({name.replace(" ", "_"): str(place) for name, place in setting_rows.items()})
        return
    for name, place in setting_rows.items():
        echo(f"{name:<13} {place}{'' if place.exists() else '  (missing)'}")


@config.command()
@as_json_option
def show(as_json: bool) -> None:
    """Show every setting, and which layer it comes from. Secrets are masked."""
    from quarterdeck.config.display import setting_rows

    loaded = _load()
    shown = list(setting_rows(loaded))
    if as_json:
        _echo_json(
            {
                "settings": [
                    {
                        "key": row.key,
                        "value": row.value,
                        "layer": row.source.layer,
                        "place": row.source.place,
                    }
                    for row in shown
                ],
                "notices": [str(notice) for notice in loaded.notices],
            }
        )
        return
    texts = [(f"{row.key} = {_toml(row.value)}", row.source) for row in shown]
    width = min(48, max(len(text) for text, _ in texts))
    for text, source in texts:
        echo(f"{text:<{width}}  {source.layer} {source.place or ''}".rstrip())
    _echo_notices(loaded)


@config.command()
def check() -> None:
    """Check the settings that apply here; exits with 1 on an error."""
    loaded = _load()
    _echo_notices(loaded)
    for source in loaded.files:
        echo(f"ok: {source.place} ({source.layer})")
    if not loaded.files:
        echo("ok: there are no files; defaults apply")


@config.command()
def reference() -> None:
    """Describe every setting, as Markdown."""
    from quarterdeck.config.display import reference_markdown

    echo(reference_markdown(), nl=False)


scope_option = click.option(
    "--scope",
    type=click.Choice(["user", "project", "local"]),
    default="user",
    show_default=True,
    help="Your file, the project's file, or its local file.",
)


@config.command("set")
@click.argument("key")
@click.argument("values", nargs=-1, required=True, metavar="VALUE...")
@scope_option
def set_(key: str, values: tuple[str, ...], scope: "SettingScope") -> None:
    """Change a setting; other settings and comments of the file stay.

    A list takes one VALUE for each element and replaces the list of that file.
    """
    from quarterdeck.config.writer import find_setting, parse_setting_value, write_setting

    parts, setting = find_setting(key)
    value = parse_setting_value(parts, setting, values)
    path = _scope_file(scope)
    write_setting(path, parts, value, is_shared=scope != "user")
    echo(f"{path}: {key} = {_toml(value)}")
    _echo_effect(parts, scope)


@config.command()
@click.argument("key")
@scope_option
def unset(key: str, scope: "SettingScope") -> None:
    """Take a setting out of a file, so that the layer below counts."""
    from quarterdeck.config.writer import find_setting, remove_setting

    parts, _ = find_setting(key)
    path = _scope_file(scope)
    if not remove_setting(path, parts, is_shared=scope != "user"):
        echo(f"{path}: {key} was not set")
        return
    echo(f"{path}: {key} is no longer set")
    _echo_effect(parts, scope)


@config.command()
@click.argument(
    "directory", type=click.Path(path_type=Path, exists=True, file_okay=False), required=False
)
@click.option("--revoke", is_flag=True, help="Stop trusting it.")
@click.option("--list", "as_list", is_flag=True, help="List trusted directories.")
def trust(directory: Path | None, revoke: bool, as_list: bool) -> None:
    """Trust a directory, so that its project's settings apply in full.

    Project settings can run programs and send your code elsewhere: read them first. The default is
    the repository of the current directory.
    """
    from quarterdeck.config.workspace import find_workspace

    store = _trust()
    if as_list:
        _echo_lines([str(place) for place in store.trusted()])
        return
    place = directory or find_workspace(_here()).project
    if not revoke:
        echo(f"trusted: {store.trust(place)}")
    elif store.revoke(place):
        echo(f"no longer trusted: {place}")
    else:
        echo(f"was not trusted: {place}")


def _here() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError as error:
        raise ConfigError(
            "the current directory no longer exists; change to another one"
        ) from error


def _scope_file(scope: "SettingScope") -> Path:
    from quarterdeck.config.writer import find_scope_file

    return find_scope_file(Places.find(), _here(), scope)


def _echo_effect(key: tuple[str, ...], scope: "SettingScope") -> None:
    """Say when the change counts, and what is in its way."""
    from quarterdeck.config.display import describe_effect
    from quarterdeck.config.schema import FREE_OF_TRUST
    from quarterdeck.config.validation import key_matches
    from quarterdeck.config.workspace import find_workspace

    source = _load().source(*key)
    is_trusted = _trust().is_trusted(find_workspace(_here()).project)
    layers = ("user", "project", "local", "environment", "flag")
    if scope != "user" and not is_trusted and not key_matches(key, FREE_OF_TRUST):
        echo("takes effect once you trust this workspace: quarterdeck config trust")
    elif source.layer in layers and layers.index(source.layer) > layers.index(scope):
        echo(f"has no effect here: {source.place or source.layer} sets it too")
    else:
        echo(f"takes effect {describe_effect(key)}")


def _load() -> "Config":
    from quarterdeck.config.loader import load_config
    from quarterdeck.config.workspace import find_workspace

    here = _here()
    trusted = _trust().is_trusted(find_workspace(here).project)
    return load_config(Places.find(), directory=here, trusted=trusted)


def _trust() -> "TrustStore":
    from quarterdeck.config.trust import TrustStore

    return TrustStore(Places.find().trust_file)


def _toml(value: Any) -> str:
    import json

    return "(not set)" if value is None else json.dumps(value, ensure_ascii=False)


def _echo_notices(loaded: "Config") -> None:
    for notice in loaded.notices:
        echo(f"quarterdeck: {notice}", err=True)


def _echo_lines(texts: Sequence[str]) -> None:
    for text in texts:
        echo(text)


def _echo_json(value: Any) -> None:
    import json

    echo(json.dumps(value, indent=2))
