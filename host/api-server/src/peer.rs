//! Who may call: root, and the user the daemon runs as.
//!
//! The socket's mode already keeps others out. This check does so even if the mode was changed.

use tonic::transport::server::UdsConnectInfo;
use tonic::{Request, Status};

/// The check of a call's peer, by the credentials the kernel recorded when it connected.
#[derive(Debug, Clone, Copy)]
pub(super) struct PeerCheck {
    owner: u32,
}

impl PeerCheck {
    /// Lets root and this user in.
    pub(super) const fn for_owner(owner: u32) -> Self {
        Self { owner }
    }

    fn check(self, uid: Option<u32>) -> Result<(), Status> {
        match uid {
            Some(uid) if uid == 0 || uid == self.owner => Ok(()),
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
        let check = PeerCheck::for_owner(1000);
        assert!(check.check(Some(0)).is_ok());
        assert!(check.check(Some(1000)).is_ok());
        let refused = check.check(Some(1001)).unwrap_err();
        assert_eq!(refused.code(), tonic::Code::PermissionDenied);
        assert_eq!(
            refused.message(),
            "user 1001 may not use this volhost: only root and user 1000, which it runs as, may"
        );
        assert_eq!(check.check(None).unwrap_err().code(), tonic::Code::PermissionDenied);
    }
}
