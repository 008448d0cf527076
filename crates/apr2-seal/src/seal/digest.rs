//! Computes the digest of a tensor and the nodes over its pages in one pass over its stored bytes.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use crate::seal::hash::{self, Hash};

/// Hashes the stored bytes of one tensor, which must come in order.
pub(crate) struct Digester {
    page: u64,
    size: u64,
    seen: u64,
    current: Vec<u8>,
    whole: blake3::Hasher,
    nodes: Vec<Hash>,
}

impl Digester {
    pub(crate) fn new(size: u64, page: u64) -> Self {
        Self { page, size, seen: 0, current: Vec::new(), whole: blake3::Hasher::new(), nodes: Vec::new() }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        if self.size <= self.page {
            self.whole.update(bytes);
            return;
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            let room = self
                .page
                .saturating_sub(self.seen.checked_rem(self.page).unwrap_or_default())
                .min(self.size.saturating_sub(self.seen));
            let len = usize::try_from(room).unwrap_or(usize::MAX).min(rest.len());
            let (here, after) = rest.split_at(len);
            let number = self.seen.checked_div(self.page).unwrap_or_default();
            if len == 0 {
                return; // more than was said; the writer finds out
            }
            self.seen = self.seen.saturating_add(len as u64);
            let ends = self.seen.is_multiple_of(self.page) || self.seen == self.size;
            match (ends, self.current.is_empty()) {
                (true, true) => self.nodes.push(hash::page_node(self.page, number, here)),
                (true, false) => {
                    self.current.extend(here);
                    self.nodes.push(hash::page_node(self.page, number, &self.current));
                    self.current.clear();
                }
                (false, _) => self.current.extend(here),
            }
            rest = after;
        }
    }

    /// Returns the digest of the tensor and, if it has several pages, the nodes over them.
    pub(crate) fn finish(self) -> (Hash, Vec<Hash>) {
        match hash::root(&self.nodes) {
            Some(digest) => (digest, self.nodes),
            None => (self.whole.finalize().into(), Vec::new()),
        }
    }
}
