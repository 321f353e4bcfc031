"""Archives whose bytes depend on nothing but what is in them: tools write the time, and their own user, into theirs."""

import gzip
import io
import tarfile
from pathlib import Path


def pack_again(path: Path, time: int) -> None:
    """Write a tar file again, compressed by gzip or not, with one time and no owner.

    The order of files is kept, but for OCI archives.

    Args:
        path: the file, which is replaced.
        time: of every file, in seconds since 1970.
    """
    with tarfile.open(path) as archive:
        members = archive.getmembers()
        contents = {member.name: _content(archive, member) for member in members}
    if "oci-layout" in contents:
        # It is packed from a folder, in the order in which the file system lists it.
        members.sort(key=lambda member: member.name)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for member in members:
            clean = tarfile.TarInfo(member.name)
            clean.type, clean.size, clean.mtime = member.type, member.size, time
            clean.mode = 0o755 if member.isdir() else 0o644
            archive.addfile(clean, io.BytesIO(contents[member.name]))
    content = packed.getvalue()
    path.write_bytes(gzip.compress(content, mtime=time) if path.suffix == ".tgz" else content)


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    return b"" if file is None else file.read()
