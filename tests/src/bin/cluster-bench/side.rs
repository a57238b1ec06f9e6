//! What is compared.

/// Who mounts the volumes of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// The stock kubelet with its own plugins.
    Kubelet,
    /// The stock kubelet, and `csi-serve` with the plugin `host-path`.
    CsiServe,
    /// volhost's daemon and its agent, on a node without a kubelet.
    Volhost,
}

impl Side {
    /// All of them; the first is what the others are compared with.
    pub(crate) const ALL: [Self; 3] = [Self::Kubelet, Self::CsiServe, Self::Volhost];
    /// Those that are a node's program.
    pub(crate) const NODES: [Self; 2] = [Self::Kubelet, Self::Volhost];

    /// A word for the names of pods.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Kubelet => "kubelet",
            Self::CsiServe => "csi",
            Self::Volhost => "volhost",
        }
    }

    /// How the table names it.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Kubelet => "stock kubelet",
            Self::CsiServe => "stock kubelet, csi-serve",
            Self::Volhost => "volhost's node",
        }
    }
}
