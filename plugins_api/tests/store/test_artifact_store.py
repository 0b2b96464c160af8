import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from graphwright_plugins import Artifact, ArtifactMeta, ArtifactStore, DamagedArtifact, UnusableStore

META = ArtifactMeta(
    backend="b",
    distribution="dist-b",
    version="1.2",
    api_version=(1, 0),
    torch_version="2.13",
    graph="abc",
    options="{}",
    key_parts={"driver": "5"},
    environment={"python": "cpython-311"},
    assumptions=("n0 > 3",),
)
KEYS = ["aa" * 32, "bb" * 32, "cc" * 32]


def artifact(n_bytes: int = 100) -> Artifact:
    return Artifact(META, os.urandom(n_bytes))


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(tmp_path / "store", 1_000_000)


def file_of(store: ArtifactStore, key: str) -> Path:
    return store.folder / key[:2] / f"{key}.gwa"


def test_what_is_put_in_comes_out(store: ArtifactStore) -> None:
    kept = artifact()
    n_bytes = store.put(KEYS[0], kept)
    assert store.get(KEYS[0]) == kept
    assert store.get(KEYS[1]) is None
    assert store.size() == n_bytes
    assert store.keys() == [KEYS[0]]
    store.clear()
    assert store.keys() == []


def test_a_second_artifact_takes_the_place_of_the_first(store: ArtifactStore) -> None:
    store.put(KEYS[0], artifact())
    second = artifact()
    store.put(KEYS[0], second)
    assert store.get(KEYS[0]) == second


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda content: content[:-1], "holds 99 of 100 bytes"),
        (lambda content: content[:40], "header"),
        (lambda content: b"", "doesn't begin"),
        (lambda content: content[:-1] + bytes([content[-1] ^ 1]), "content is not"),
        (lambda content: content.replace(b"dist-b", b"dist-c"), "header"),
    ],
    ids=["truncated", "header cut", "empty", "bit flipped", "header changed"],
)
def test_damage_is_seen_and_the_file_goes(store: ArtifactStore, damage, reason: str) -> None:
    store.put(KEYS[0], artifact())
    path = file_of(store, KEYS[0])
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DamagedArtifact, match=reason) as caught:
        store.get(KEYS[0])
    assert str(path) in str(caught.value)
    assert not path.exists()


def test_damage_stays_in_a_store_used_read_only(store: ArtifactStore) -> None:
    store.put(KEYS[0], artifact())
    file_of(store, KEYS[0]).write_bytes(b"")
    with pytest.raises(DamagedArtifact):
        ArtifactStore(store.folder, 1_000_000, read_only=True).get(KEYS[0])
    assert file_of(store, KEYS[0]).exists()


def test_what_was_used_longest_ago_goes(tmp_path: Path) -> None:
    sizes = ArtifactStore(tmp_path / "measure", 10**9)
    n_bytes = sizes.put(KEYS[0], artifact())
    store = ArtifactStore(tmp_path / "store", int(2.5 * n_bytes))
    for age, key in enumerate(KEYS[:2]):
        store.put(key, artifact())
        os.utime(file_of(store, key), (1000 + age, 1000 + age))
    assert store.get(KEYS[0]) is not None  # the first is used again, so that the second is oldest
    store.put(KEYS[2], artifact())
    assert set(store.keys()) == {KEYS[0], KEYS[2]}
    assert store.size() <= store.limit_bytes


def test_an_artifact_above_the_limit_is_refused(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "store", 500)
    with pytest.raises(UnusableStore, match="more than the limit of 500"):
        store.put(KEYS[0], artifact(1000))
    assert not store.folder.exists()


def test_leftovers_of_killed_writers_go(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "store", 2000)
    store.put(KEYS[0], artifact())
    left = store.folder / KEYS[0][:2] / ".writing-old"
    left.write_bytes(b"x")
    os.utime(left, (1000, 1000))
    fresh = left.with_name(".writing-new")
    fresh.write_bytes(b"x")
    for key in KEYS:
        store.put(key, artifact(900))
    assert not left.exists()
    assert fresh.exists()


def test_writers_at_once_leave_whole_files(store: ArtifactStore) -> None:
    contents = [artifact(20_000) for _ in range(8)]

    def write(kept: Artifact) -> None:
        for _ in range(10):
            store.put(KEYS[0], kept)
            found = store.get(KEYS[0])
            assert found in contents

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, contents))
    assert [path.name for path in store.folder.rglob("*") if path.is_file()] == [f"{KEYS[0]}.gwa"]


def test_a_store_used_read_only_is_not_written(store: ArtifactStore) -> None:
    store.put(KEYS[0], artifact())
    old = time.time() - 5000
    os.utime(file_of(store, KEYS[0]), (old, old))
    reader = ArtifactStore(store.folder, 1_000_000, read_only=True)
    assert reader.get(KEYS[0]) is not None
    assert file_of(store, KEYS[0]).stat().st_mtime == pytest.approx(old)
    with pytest.raises(UnusableStore, match="read-only"):
        reader.put(KEYS[1], artifact())


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = ArtifactStore(tmp_path / "file" / "store", 1000)
    assert store.get(KEYS[0]) is None
    with pytest.raises(UnusableStore, match="can't be written"):
        store.put(KEYS[0], artifact())


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such permissions")
def test_a_folder_that_everybody_may_write_to_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(UnusableStore, match="everybody may write"):
        ArtifactStore(tmp_path, 1000)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such permissions")
def test_the_folder_is_made_for_its_owner_alone(store: ArtifactStore) -> None:
    store.put(KEYS[0], artifact())
    assert store.folder.stat().st_mode & 0o777 == 0o700
