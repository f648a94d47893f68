"""Programs that are installed where people expect them, for decisions without a disk."""

from collections.abc import Iterator, Mapping

__all__ = ["INSTALLED", "InstalledPrograms"]


class InstalledPrograms(Mapping[str, str]):
    """A machine on which every program is in ``/usr/bin``, for ``Call.programs``."""

    def __getitem__(self, name: str) -> str:
        return f"/usr/bin/{name}"

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


INSTALLED = InstalledPrograms()
