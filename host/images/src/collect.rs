//! Which images are removed when their disk fills up: those that nothing uses, the one used longest
//! ago first, until there is room again.

use std::collections::BTreeSet;
use std::time::SystemTime;

use crate::folders::ImageRecord;

/// An image that could be removed.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    /// The digits of its digest.
    pub(crate) hex: String,
    /// Its last use.
    pub(crate) used: SystemTime,
    /// Its layers.
    pub(crate) record: ImageRecord,
}

/// Chooses the images to remove, so that at least `bytes` become free if that is possible. A layer
/// becomes free with the last image that has it.
pub(crate) fn choose(images: &[Candidate], in_use: &BTreeSet<String>, bytes: u64) -> Vec<String> {
    let mut unused: Vec<&Candidate> = images.iter().filter(|image| !in_use.contains(&image.hex)).collect();
    unused.sort_by_key(|image| image.used);
    let mut removed = BTreeSet::new();
    let mut freed = 0_u64;
    for image in unused {
        if freed >= bytes {
            break;
        }
        removed.insert(image.hex.clone());
        let stays = layers_of(images, &removed);
        let mut seen = BTreeSet::new();
        let gone = image.record.layers.iter().filter(|layer| !stays.contains(layer.digest.as_str()));
        let gone = gone.filter(|layer| seen.insert(layer.digest.as_str()));
        freed = gone.fold(freed, |sum, layer| sum.saturating_add(layer.bytes));
    }
    removed.into_iter().collect()
}

/// The layers of all images but the removed ones.
pub(crate) fn layers_of<'a>(images: &'a [Candidate], removed: &BTreeSet<String>) -> BTreeSet<&'a str> {
    let left = images.iter().filter(|image| !removed.contains(&image.hex));
    left.flat_map(|image| image.record.layers.iter().map(|layer| layer.digest.as_str())).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::folders::LayerRecord;

    fn image(hex: &str, used: u64, layers: &[(&str, u64)]) -> Candidate {
        let layer = |(digest, bytes): &(&str, u64)| LayerRecord { digest: (*digest).to_owned(), bytes: *bytes };
        let record = ImageRecord { layers: layers.iter().map(layer).collect() };
        Candidate { hex: hex.to_owned(), used: SystemTime::UNIX_EPOCH + Duration::from_secs(used), record }
    }

    fn in_use(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn the_image_used_longest_ago_goes_first_and_one_in_use_never() {
        let images = [image("new", 9, &[("n", 10)]), image("old", 1, &[("o", 10)]), image("used", 0, &[("u", 10)])];
        assert_eq!(choose(&images, &in_use(&["used"]), 5), ["old"]);
        assert_eq!(choose(&images, &in_use(&["used"]), 11), ["new", "old"]);
        assert_eq!(choose(&images, &in_use(&["used"]), 1000), ["new", "old"]);
        assert!(choose(&images, &in_use(&[]), 0).is_empty());
    }

    #[test]
    fn a_layer_that_another_image_has_frees_nothing() {
        let images = [
            image("first", 1, &[("base", 100), ("a", 1)]),
            image("second", 2, &[("base", 100), ("b", 1)]),
            image("third", 3, &[("c", 50)]),
        ];
        assert_eq!(choose(&images, &in_use(&[]), 2), ["first", "second"]);
        assert_eq!(choose(&images, &in_use(&["second"]), 2), ["first", "third"]);
    }
}
