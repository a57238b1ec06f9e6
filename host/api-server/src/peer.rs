//! Who may call: root, the user the daemon runs as, and the members of the socket's group.
//!
//! The socket's mode already keeps others out. Without a group this check does so even if the mode
//! was changed. With one, the kernel's check of the mode decides: it knows all groups of a process.

use tonic::transport::server::UdsConnectInfo;
use tonic::{Request, Status};

/// The check of a call's peer, by the credentials the kernel recorded when it connected.
#[derive(Debug, Clone, Copy)]
pub(super) struct PeerCheck {
    owner: u32,
    has_group: bool,
}

impl PeerCheck {
    /// Lets root and this user in, and every caller that could connect if the socket has a group.
    pub(super) const fn new(owner: u32, has_group: bool) -> Self {
        Self { owner, has_group }
    }

    fn check(self, uid: Option<u32>) -> Result<(), Status> {
        match uid {
            Some(uid) if uid == 0 || uid == self.owner || self.has_group => Ok(()),
            Some(uid) => Err(Status::permission_denied(format!(
                "user {uid} may not use this volhost: only root and user {}, which it runs as, may",
                self.owner
            ))),
            None => Err(Status::permission_denied(
                "the kernel does not say who is calling; only root and volhost's own user may",
            )),
        }
    }
}

impl tonic::service::Interceptor for PeerCheck {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        let uid = request.extensions().get::<UdsConnectInfo>().and_then(|info| info.peer_cred).map(|peer| peer.uid());
        self.check(uid)?;
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_and_the_owner_may_call_and_nobody_else() {
        let check = PeerCheck::new(1000, false);
        assert!(check.check(Some(0)).is_ok());
        assert!(check.check(Some(1000)).is_ok());
        let refused = check.check(Some(1001)).unwrap_err();
        assert_eq!(refused.code(), tonic::Code::PermissionDenied);
        assert_eq!(
            refused.message(),
            "user 1001 may not use this volhost: only root and user 1000, which it runs as, may"
        );
        assert_eq!(check.check(None).unwrap_err().code(), tonic::Code::PermissionDenied);
        let check = PeerCheck::new(1000, true);
        assert!(check.check(Some(1001)).is_ok(), "the kernel let it connect");
        assert!(check.check(None).is_err());
    }
}
