//! Whether every pod is mounted where it is to run, and nowhere else.

use std::collections::BTreeSet;

use volhost_model::view::PodView;

use super::{Nodes, is_mounted};

/// The pods that are to be mounted, node by node.
pub(crate) struct Placement<'a> {
    nodes: &'a Nodes,
    wanted: &'a [BTreeSet<String>],
    /// How many volumes each pod has.
    volumes: u32,
    /// How many of the wanted pods were mounted on each node, and how many others it had, when its
    /// daemon was asked last.
    found: Vec<(usize, usize)>,
}

impl<'a> Placement<'a> {
    pub(crate) fn new(nodes: &'a Nodes, wanted: &'a [BTreeSet<String>], volumes: u32) -> Self {
        Self { nodes, wanted, volumes, found: vec![(0, 0); wanted.len()] }
    }

    /// How many pods are mounted where they are wanted; each pod that is elsewhere counts against
    /// it. Asks the daemons whose pods were not all mounted, and the others once there are none.
    pub(crate) fn count(&mut self) -> usize {
        let all: Vec<usize> = (0..self.wanted.len()).collect();
        let rest: Vec<usize> = all.iter().copied().filter(|node| !self.is_complete(*node)).collect();
        self.ask(&rest);
        if all.iter().all(|node| self.is_complete(*node)) {
            self.ask(&all);
        }
        let (mounted, others) =
            self.found.iter().fold((0, 0), |(mounted, others), (here, elsewhere)| (mounted + here, others + elsewhere));
        mounted.saturating_sub(others)
    }

    fn is_complete(&self, node: usize) -> bool {
        self.found[node] == (self.wanted[node].len(), 0)
    }

    fn ask(&mut self, which: &[usize]) {
        for (node, pods) in which.iter().zip(self.nodes.pods_of(which)) {
            let wanted = &self.wanted[*node];
            let (here, elsewhere): (Vec<&PodView>, Vec<_>) = pods.iter().partition(|pod| wanted.contains(&pod.name));
            let mounted = here.into_iter().filter(|pod| is_mounted(pod, self.volumes)).count();
            self.found[*node] = (mounted, elsewhere.len());
        }
    }
}
