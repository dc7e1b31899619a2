"""What runs changed: looking at it, and taking it back.

Owns how checkpoints look on the wire. What they are is the harness's. Looking works on sessions
that are not open; restoring takes an open one, whose mode says whether it may.
"""

from pathlib import Path

from msgspec import UNSET

from pi_rpc.harness.checkpoints import Checkpoint, SavedFile
from pi_rpc.jsonrpc.errors import invalid_params
from pi_rpc.jsonrpc.peer import Request
from pi_rpc.protocol import checkpoints as c
from pi_rpc.protocol.decode import decode_params
from pi_rpc.server.connection import Connection
from pi_rpc.server.convert import wire_text
from pi_rpc.server.features.session_files import visited

__all__ = ["HANDLERS"]


async def handle_list(connection: Connection, request: Request) -> c.CheckpointListResult:
    """A page of a session's checkpoints."""
    params = decode_params(c.CheckpointListParams, request.params)
    request.started()
    async with visited(connection, params.session_id, read_only=True) as hosted:
        found = await hosted.harness.checkpoints.list()
    if params.before:
        found = [each for each in found if each.id < params.before]
    return c.CheckpointListResult(
        checkpoints=[_summary(each) for each in found[: params.limit]],
        has_more=len(found) > params.limit,
    )


async def handle_diff(connection: Connection, request: Request) -> c.CheckpointDiffResult:
    """The diff of one."""
    params = decode_params(c.CheckpointDiffParams, request.params)
    request.started()
    async with visited(connection, params.session_id, read_only=True) as hosted:
        diff = await hosted.harness.checkpoints.diff(params.checkpoint_id)
    return c.CheckpointDiffResult(diff=diff.text, truncated=diff.truncated)


async def handle_restore(connection: Connection, request: Request) -> c.CheckpointRestoreResult:
    """Once it has begun, cancelling it does nothing; ``abort`` stops it between two files."""
    params = decode_params(c.CheckpointRestoreParams, request.params)
    request.on_cancel(lambda: None)
    harness = (await connection.session(params.session_id)).harness
    paths: list[Path] | None = None
    if params.paths is not UNSET:
        checkpoint = await harness.checkpoints.find(params.checkpoint_id)
        paths = [
            _path_of(checkpoint, named, place) for place, named in enumerate(params.paths or ())
        ]
    result = await harness.restore(params.checkpoint_id, paths)
    return c.CheckpointRestoreResult(
        restored=[
            c.RestoredFile(path=wire_text(path), uri=path.as_uri(), kind=kind)
            for path, kind in result.restored
        ],
        conflicts=[
            c.CheckpointConflict(
                path=wire_text(each.path),
                uri=each.path.as_uri(),
                reason=each.reason,
                message=wire_text(each.message),
            )
            for each in result.conflicts
        ],
        checkpoint_id=result.undo_id or UNSET,
    )


HANDLERS = {
    "checkpoint/list": handle_list,
    "checkpoint/diff": handle_diff,
    "checkpoint/restore": handle_restore,
}


def _path_of(checkpoint: Checkpoint, named: str, place: int) -> Path:
    """The file of a checkpoint that a client names."""
    for path in checkpoint.files:
        if named in {wire_text(path), path.as_uri()}:
            return path
    field = f"paths[{place}]"
    raise invalid_params(f"{field}: expected a file of the checkpoint, got {named!r}", path=field)


def _summary(checkpoint: Checkpoint) -> c.CheckpointSummary:
    return c.CheckpointSummary(
        checkpoint_id=checkpoint.id,
        session_id=checkpoint.session_id,
        kind=checkpoint.kind,
        time=checkpoint.time,
        text=wire_text(checkpoint.text),
        files=[_file(each) for each in checkpoint.saved],
        not_restorable=[
            c.UnsavedFile(
                path=wire_text(each.path),
                uri=each.path.as_uri(),
                kind=each.kind,
                reason=wire_text(each.reason or ""),
            )
            for each in checkpoint.unsaved
        ],
        settled=checkpoint.ended,
        run_id=checkpoint.run_id or UNSET,
        entry_id=checkpoint.entry_id or UNSET,
        restored=checkpoint.restored or UNSET,
    )


def _file(saved: SavedFile) -> c.CheckpointFile:
    return c.CheckpointFile(
        path=wire_text(saved.path),
        uri=saved.path.as_uri(),
        kind=saved.kind,
        before=saved.before or UNSET,
        after=saved.after or UNSET,
        mode=UNSET if saved.mode is None else saved.mode,
        changed_by_others=saved.others or UNSET,
    )
