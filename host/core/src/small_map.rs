//! A map that mostly has one entry.
//!
//! A node of a `BTreeMap` has room for eleven. A volume mostly has one pod, and there are tens of
//! thousands of volumes: here one entry takes the room of one.

/// A map ordered by key, as a sorted vector. Adding and removing take time in proportion to the
/// entries after the place, a move of some bytes each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SmallMap<K, V>(Vec<(K, V)>);

impl<K, V> Default for SmallMap<K, V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: Ord, V> SmallMap<K, V> {
    fn place(&self, key: &K) -> Result<usize, usize> {
        self.0.binary_search_by(|(known, _)| known.cmp(key))
    }

    /// Returns the value of the key.
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        Some(&self.0.get(self.place(key).ok()?)?.1)
    }

    /// Returns the value of the key, to be changed.
    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let place = self.place(key).ok()?;
        Some(&mut self.0.get_mut(place)?.1)
    }

    /// Whether the key has a value.
    pub(crate) fn contains_key(&self, key: &K) -> bool {
        self.place(key).is_ok()
    }

    /// Gives the key a value, in place of an earlier one.
    pub(crate) fn insert(&mut self, key: K, value: V) {
        match self.place(&key) {
            Ok(place) => drop(self.0.get_mut(place).map(|entry| std::mem::replace(&mut entry.1, value))),
            Err(place) => {
                if self.0.is_empty() {
                    self.0.reserve_exact(1);
                }
                self.0.insert(place, (key, value));
            }
        }
    }

    /// Takes the value of the key out.
    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let place = self.place(key).ok()?;
        Some(self.0.remove(place).1)
    }
}

impl<K, V> SmallMap<K, V> {
    /// Whether no key has a value.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns all entries, by key.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.0.iter().map(|(key, value)| (key, value))
    }

    /// Returns all keys, in their order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &K> {
        self.0.iter().map(|(key, _)| key)
    }

    /// Returns all values, by key, to be changed.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.0.iter_mut().map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn it_is_what_a_map_would_be() {
        let (mut small, mut map) = (SmallMap::default(), BTreeMap::new());
        // Every number up to 31 comes and goes, in an order that is none.
        for step in 0_usize..1_000 {
            let key = step * 7_919 % 32;
            if step % 3 == 0 {
                assert_eq!(small.remove(&key), map.remove(&key));
            } else {
                small.insert(key, step);
                map.insert(key, step);
            }
            assert!(small.iter().eq(&map) && small.keys().eq(map.keys()), "{step}");
            assert_eq!((small.get(&key), small.contains_key(&key)), (map.get(&key), map.contains_key(&key)));
            assert_eq!(small.is_empty(), map.is_empty());
        }
        small.values_mut().for_each(|value| *value += 1);
        assert!(small.iter().all(|(key, value)| map[key] + 1 == *value));
        assert_eq!(small.get_mut(&99), None);
    }

    #[test]
    fn one_entry_takes_the_room_of_one() {
        let mut small = SmallMap::default();
        small.insert(1, 2);
        assert_eq!(small.0.capacity(), 1);
    }
}
