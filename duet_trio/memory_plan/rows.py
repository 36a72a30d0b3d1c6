"""The plan as data, and as text."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1024 * 1024

#: The card and the machine that this project is measured against.
REFERENCE_VRAM_MIB = 8_188
REFERENCE_RAM_MIB = 16_384
#: CUDA allocations fail inside ggml with abort(): this much must stay free.
VRAM_SPARE_MIB = 300
RAM_SPARE_MIB = 1_024


@dataclass(frozen=True, slots=True)
class Row:
    """One line: what it is, and what it takes. ``kind`` ``cannot be saved`` marks what the
    bindable engines offer no switch for; ``assumed`` what comes from no file.
    """

    owner: str  # "llm", "tts", "asr", "machine"
    what: str
    vram_mib: float = 0.0
    ram_mib: float = 0.0
    note: str = ""


@dataclass(frozen=True, slots=True)
class Advice:
    """A key to turn, and what it would save."""

    change: str
    vram_mib: float = 0.0
    ram_mib: float = 0.0


@dataclass(frozen=True, slots=True)
class Cure:
    """Keys to turn together so that it fits; without any it does as it is."""

    changes: tuple[str, ...]
    vram_mib: float  # planned with all of them turned
    enough: bool

    def __str__(self) -> str:
        """For people whose plan does not fit: what to do."""
        turn = " and ".join(self.changes)
        if self.enough:
            return f"turn {turn}: then {self.vram_mib:,.0f} MiB are planned"
        tried = f"even with {turn} {self.vram_mib:,.0f} MiB are planned; " if turn else ""
        return f"no key is enough: {tried}take smaller models"


@dataclass(frozen=True, slots=True)
class Measured:
    """What the machine itself says now (None: it does not)."""

    gpu_name: str = ""
    vram_total_mib: float | None = None
    vram_used_mib: float | None = None
    ram_total_mib: float | None = None


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Where the memory goes; planned from file heads and settings, not measured."""

    rows: tuple[Row, ...]
    advice: tuple[Advice, ...] = ()
    missing: tuple[str, ...] = ()  # files that could not be read: their share is not counted
    published: tuple[str, ...] = ()  # not there yet: planned from published dimensions
    measured: Measured = Measured()
    cure: Cure | None = None  # for the reference card
    own_cure: Cure | None = None  # for the card that was measured

    @property
    def vram_mib(self) -> float:
        """Of all rows."""
        return sum(row.vram_mib for row in self.rows)

    @property
    def ram_mib(self) -> float:
        """Of all rows."""
        return sum(row.ram_mib for row in self.rows)

    @property
    def fits_vram(self) -> bool | None:
        """Into the reference card with room to spare; None when files are missing."""
        fits = self.vram_mib + VRAM_SPARE_MIB <= REFERENCE_VRAM_MIB
        return None if self.missing and fits else fits

    @property
    def fits_ram(self) -> bool | None:
        """Into 16 GB with room to spare; None when files are missing."""
        fits = self.ram_mib + RAM_SPARE_MIB <= REFERENCE_RAM_MIB
        return None if self.missing and fits else fits

    def render(self) -> str:
        """The table, the verdict and the advice, as text."""
        width = max(len(row.what) for row in self.rows) if self.rows else 10
        lines = ["memory, planned, not measured (MiB)"]
        lines.append(f"{'':8} {'':{width}} {'VRAM':>7} {'RAM':>7}")
        for row in self.rows:
            note = f"  {row.note}" if row.note else ""
            lines.append(
                f"{row.owner:8} {row.what:{width}} {_number(row.vram_mib)} {_number(row.ram_mib)}"
                f"{note}"
            )
        lines.append(f"{'sum':8} {'':{width}} {_number(self.vram_mib)} {_number(self.ram_mib)}")
        lines += [f"not counted: {path}" for path in self.missing]
        lines += [f"not there, from its published size: {path}" for path in self.published]
        lines.append(
            _verdict("VRAM", self.vram_mib, REFERENCE_VRAM_MIB, VRAM_SPARE_MIB, self.fits_vram)
        )
        lines.append(_verdict("RAM", self.ram_mib, REFERENCE_RAM_MIB, RAM_SPARE_MIB, self.fits_ram))
        lines += self._measured_lines()
        if self.fits_vram is False or self.fits_ram is False:
            lines += [f"to turn: {one.change}: saves {_saving(one)}" for one in self.advice]
        if self.fits_vram is False and self.cure is not None:
            lines.append(f"to fit: {self.cure}")
        return "\n".join(line.rstrip() for line in lines)

    def _measured_lines(self) -> list[str]:
        now, lines = self.measured, []
        if now.vram_total_mib is not None and now.vram_used_mib is not None:
            lines.append(
                f"this card ({now.gpu_name}): {now.vram_used_mib:,.0f} of"
                f" {now.vram_total_mib:,.0f} MiB in use now (nvidia-smi)"
            )
        elif now.gpu_name:
            lines.append(f"this card ({now.gpu_name}): nvidia-smi does not say what it has")
        else:
            lines.append("this machine: no NVIDIA card seen (nvidia-smi)")
        if now.ram_total_mib is not None:
            lines.append(f"this machine: {now.ram_total_mib:,.0f} MiB of RAM")
        return lines


def _number(value: float) -> str:
    return f"{value:7,.0f}" if value >= 0.5 else f"{'-':>7}"


def _saving(advice: Advice) -> str:
    parts = [
        f"{value:,.0f} MiB of {name}"
        for name, value in (("VRAM", advice.vram_mib), ("RAM", advice.ram_mib))
        if value >= 1
    ]
    return " and ".join(parts)


def _verdict(name: str, needed: float, limit: int, spare: int, fits: bool | None) -> str:
    head = f"{name}: {needed:,.0f} of {limit:,} MiB"
    if fits is None:
        return f"{head}; cannot say whether all of it fits: files are missing"
    if fits:
        return f"{head}; fits, {limit - needed:,.0f} MiB remain"
    if needed <= limit:
        return f"{head}; too tight: {spare} MiB should stay free"
    return f"{head}; does not fit, {needed - limit:,.0f} MiB too much"
