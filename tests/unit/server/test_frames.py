from hypothesis import given
from hypothesis import strategies as st

from harness.server.frames import FrameReader, encode_frame

VALUES = st.dictionaries(
    st.text(max_size=5),
    st.integers() | st.text(max_size=20) | st.lists(st.integers(), max_size=5) | st.none(),
    max_size=4,
)


@given(frames=st.lists(VALUES, max_size=6), sizes=st.lists(st.integers(1, 40), min_size=1))
def test_frames_survive_any_cutting(frames: list[dict[str, object]], sizes: list[int]) -> None:
    """The frames read are the frames written, however their bytes arrive."""
    data = b"".join(encode_frame(frame) for frame in frames)
    reader = FrameReader()
    read = []
    at = index = 0
    while at < len(data):
        size = sizes[index % len(sizes)]
        read += reader.feed(data[at : at + size])
        at, index = at + size, index + 1
    assert read == frames
