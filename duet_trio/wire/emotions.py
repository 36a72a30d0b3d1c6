"""The faces that boards can draw, and which one an emoji asks for."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

#: Emotion → the emoji that mean it; the first is the one that the font draws for it.
_FACES: Mapping[str, str] = MappingProxyType(
    {
        "neutral": "😶😐😑🫥",
        "happy": "🙂😊😀😃😄☺🤗🥳🎉👍🌞😺",
        "laughing": "😆😁😹",
        "funny": "😂🤣",
        "sad": "😔😞😟🙁☹😢😥😿💔",
        "angry": "😠😡🤬👿😤",
        "crying": "😭",
        "loving": "😍🥰😻❤💕💖💗💙💚💛💜🧡🤍",
        "embarrassed": "😳🫣🙈",
        "surprised": "😲😮😯🤯",
        "shocked": "😱😨😰😧",
        "thinking": "🤔🧐💭",
        "winking": "😉",
        "cool": "😎🕶",
        "relaxed": "😌🧘",
        "delicious": "🤤😋🍰🍕",
        "kissy": "😘😗😙😚💋",
        "confident": "😏💪",
        "sleepy": "😴😪🥱💤",
        "silly": "😜😝😛🤪🙃",
        "confused": "🙄😕🤨😵🤷",
    }
)

#: The 21 names for which boards have a drawing.
EMOTIONS: tuple[str, ...] = tuple(_FACES)

#: Each emotion's own emoji, for the ``text`` of an emotion message.
EMOJI: Mapping[str, str] = MappingProxyType({name: faces[0] for name, faces in _FACES.items()})

_BY_EMOJI = MappingProxyType({face: name for name, faces in _FACES.items() for face in faces})


def emotion_of(emoji_or_text: str) -> str | None:
    """The emotion of the first known emoji, or the text itself if it is an emotion's name.

    Skin tones and presentation selectors do not matter. ``None``: nothing to show.
    """
    for character in emoji_or_text:
        if character in _BY_EMOJI:
            return _BY_EMOJI[character]
    word = emoji_or_text.strip().lower()
    return word if word in _FACES else None
