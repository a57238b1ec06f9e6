//! Numbers for the names of pods and volumes.
//!
//! The names of a node's pods and volumes begin alike, and there are tens of thousands of them: a
//! map that is ordered by them spends its time comparing their beginnings. Here each name that the
//! state machine refers to has a number, which finds its place in a vector. An event's names are
//! looked up once; a step then passes [`Id`]s on.
//!
//! # Guarantees
//! - Ids of one [`Names`] are equal if and only if their names are.
//! - Ids are ordered by name: nothing that the caller sees depends on the numbers.
//! - A name that nothing refers to any more is forgotten some time later, and its number is used
//!   again. At most twice as many names are known as were ever referred to at one time, or 64.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use volhost_model::names::{PodUid, UniqueVolumeName};

/// The number of names from which on those that nothing refers to are looked for.
const FEW: usize = 64;

/// A pod's uid and its number.
pub(crate) type PodId = Id<PodUid>;
/// A volume's unique name and its number.
pub(crate) type VolumeId = Id<UniqueVolumeName>;

/// A name and its number.
pub(crate) struct Id<N> {
    number: usize,
    /// Only ids share it: its count says whether something refers to the name.
    name: Arc<N>,
}

impl<N> Id<N> {
    /// Returns the name.
    pub(crate) fn name(&self) -> &N {
        &self.name
    }
}

impl<N> Clone for Id<N> {
    fn clone(&self) -> Self {
        Self { number: self.number, name: Arc::clone(&self.name) }
    }
}

impl<N> PartialEq for Id<N> {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl<N> Eq for Id<N> {}

impl<N: Ord> Ord for Id<N> {
    fn cmp(&self, other: &Self) -> Ordering {
        if self == other { Ordering::Equal } else { self.name.cmp(&other.name) }
    }
}

impl<N: Ord> PartialOrd for Id<N> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<N: fmt::Display> fmt::Display for Id<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name.fmt(f)
    }
}

impl<N: fmt::Debug> fmt::Debug for Id<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name.fmt(f)
    }
}

/// The names that have a number.
#[derive(Debug, Clone)]
pub(crate) struct Names<N> {
    known: BTreeMap<N, Id<N>>,
    /// Numbers that were used and are not.
    free: Vec<usize>,
    /// The number of names at which those that nothing refers to are looked for.
    limit: usize,
}

impl<N> Default for Names<N> {
    fn default() -> Self {
        Self { known: BTreeMap::new(), free: Vec::new(), limit: FEW }
    }
}

impl<N: Ord + Clone> Names<N> {
    /// Returns the name's id, if something may refer to the name.
    pub(crate) fn get(&self, name: &N) -> Option<&Id<N>> {
        self.known.get(name)
    }

    /// Returns the name's id, and gives it a number if it has none.
    pub(crate) fn id(&mut self, name: &N) -> Id<N> {
        if let Some(id) = self.known.get(name) {
            return id.clone();
        }
        if self.known.len() >= self.limit {
            self.forget_unused();
        }
        // Without a free number, those in use are the lowest ones.
        let number = self.free.pop().unwrap_or(self.known.len());
        let id = Id { number, name: Arc::new(name.clone()) };
        self.known.insert(name.clone(), id.clone());
        id
    }

    fn forget_unused(&mut self) {
        let free = &mut self.free;
        self.known.retain(|_, id| {
            let used = Arc::strong_count(&id.name) > 1;
            if !used {
                free.push(id.number);
            }
            used
        });
        self.limit = self.known.len().saturating_mul(2).max(FEW);
    }
}

/// Something of each of many pods or volumes.
#[derive(Debug, Clone)]
pub(crate) struct ById<N, T> {
    places: Vec<Place<N, T>>,
}

/// What there is of the id with one number. Boxed: most numbers that were ever used may be free.
type Place<N, T> = Option<Box<(Id<N>, T)>>;

impl<N, T> Default for ById<N, T> {
    fn default() -> Self {
        Self { places: Vec::new() }
    }
}

impl<N, T> ById<N, T> {
    /// Returns what there is of the id.
    pub(crate) fn get(&self, id: &Id<N>) -> Option<&T> {
        Some(&self.places.get(id.number)?.as_deref()?.1)
    }

    /// Returns what there is of the id, to be changed.
    pub(crate) fn get_mut(&mut self, id: &Id<N>) -> Option<&mut T> {
        Some(&mut self.places.get_mut(id.number)?.as_deref_mut()?.1)
    }

    /// Whether there is something of the id.
    pub(crate) fn contains(&self, id: &Id<N>) -> bool {
        self.get(id).is_some()
    }

    /// Returns what there is of the id, made by `new` if there is nothing.
    pub(crate) fn entry(&mut self, id: &Id<N>, new: impl FnOnce() -> T) -> Option<&mut T> {
        if id.number >= self.places.len() {
            self.places.resize_with(id.number.saturating_add(1), || None);
        }
        let place = self.places.get_mut(id.number)?;
        Some(&mut place.get_or_insert_with(|| Box::new((id.clone(), new()))).1)
    }

    /// Takes out what there is of the id.
    pub(crate) fn remove(&mut self, id: &Id<N>) -> Option<T> {
        self.places.get_mut(id.number)?.take().map(|place| place.1)
    }

    /// Returns all there is, in an order of no meaning.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Id<N>, &T)> {
        self.places.iter().flatten().map(|place| (&place.0, &place.1))
    }

    /// Returns all there is, to be changed, in an order of no meaning.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&Id<N>, &mut T)> {
        self.places.iter_mut().flatten().map(|place| (&place.0, &mut place.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uid(number: usize) -> PodUid {
        PodUid::new(format!("pod-{number}")).unwrap()
    }

    #[test]
    fn a_name_keeps_its_id_while_something_refers_to_it() {
        let mut names = Names::default();
        let kept: Vec<PodId> = (0..10).map(|number| names.id(&uid(number))).collect();
        for number in 10..10_000 {
            assert!(!kept.contains(&names.id(&uid(number))), "{number}");
        }
        for (number, id) in kept.iter().enumerate() {
            assert_eq!(names.id(&uid(number)), *id);
            assert_eq!(names.get(&uid(number)).unwrap().name(), &uid(number));
        }
    }

    #[test]
    fn names_that_come_and_go_need_no_more_room() {
        let mut names = Names::default();
        let mut places = ById::default();
        for number in 0..10_000 {
            let id = names.id(&uid(number));
            assert!(!places.contains(&id), "{number} has the place of another");
            places.entry(&id, || number);
            assert_eq!(places.remove(&id), Some(number));
        }
        assert!(
            names.known.len() <= FEW && places.places.len() <= FEW,
            "{} {}",
            names.known.len(),
            places.places.len()
        );
    }

    #[test]
    fn what_there_is_of_an_id_keeps_its_name() {
        let mut names = Names::default();
        let mut places = ById::default();
        for number in 0..1_000 {
            let id = names.id(&uid(number));
            places.entry(&id, || number);
        }
        for number in 0..1_000 {
            assert_eq!(names.get(&uid(number)).and_then(|id| places.get(id)), Some(&number));
        }
        assert_eq!(places.iter().filter(|(id, number)| *id.name() == uid(**number)).count(), 1_000);
    }

    #[test]
    fn ids_are_ordered_by_name() {
        let mut names = Names::default();
        let [b, a, again] = ["b", "a", "b"].map(|text| names.id(&PodUid::new(text).unwrap()));
        assert!(a < b);
        assert_eq!(b.cmp(&again), Ordering::Equal);
    }
}
