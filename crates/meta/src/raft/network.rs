//! How openraft reaches other members. So far a member is always alone, so nobody is ever there.

use std::io;

use openraft::error::{InstallSnapshotError, RPCError, RaftError, Unreachable};
use openraft::network::{RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};

use crate::codec::Member;
use crate::raft::Types;

/// A network without anybody else in it.
#[derive(Clone, Copy)]
pub(crate) struct NoPeers;

type Answer<T, E = RaftError<u64>> = Result<T, RPCError<u64, Member, E>>;

#[expect(clippy::result_large_err, reason = "openraft's own type, which its trait asks for")]
fn nobody<T, E: std::error::Error>() -> Answer<T, E> {
    let source = io::Error::new(io::ErrorKind::HostUnreachable, "this member is alone");
    Err(RPCError::Unreachable(Unreachable::new(&source)))
}

impl RaftNetworkFactory<Types> for NoPeers {
    type Network = NoPeers;

    async fn new_client(&mut self, _target: u64, _node: &Member) -> NoPeers {
        NoPeers
    }
}

impl RaftNetwork<Types> for NoPeers {
    async fn append_entries(
        &mut self,
        _request: AppendEntriesRequest<Types>,
        _option: RPCOption,
    ) -> Answer<AppendEntriesResponse<u64>> {
        nobody()
    }

    async fn install_snapshot(
        &mut self,
        _request: InstallSnapshotRequest<Types>,
        _option: RPCOption,
    ) -> Answer<InstallSnapshotResponse<u64>, RaftError<u64, InstallSnapshotError>> {
        nobody()
    }

    async fn vote(
        &mut self,
        _request: VoteRequest<u64>,
        _option: RPCOption,
    ) -> Answer<VoteResponse<u64>> {
        nobody()
    }
}
