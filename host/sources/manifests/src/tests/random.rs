use std::fs;

use proptest::prelude::*;

use super::pod;
use crate::ManifestFolder;

proptest! {
    #![proptest_config(ProptestConfig { cases: 50, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_never_change_the_objects_of_other_files(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("good.yaml"), pod("a")).unwrap();
        fs::write(dir.path().join("odd.yaml"), pod("b")).unwrap();
        let mut folder = ManifestFolder::open(dir.path());
        folder.reread();
        fs::write(dir.path().join("odd.yaml"), &bytes).unwrap();
        let changes = folder.reread();
        prop_assert!(changes.upserted.iter().chain(&changes.removed).all(|object| &*object.origin.file == "odd.yaml"));
    }
}
