use std::fs;
use std::path::Path;

use crate::manifest::parse;

#[test]
fn the_examples_are_good_manifests_without_notices() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut seen = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "yaml") {
            let parsed =
                parse(path.file_name().unwrap().to_str().unwrap(), &fs::read_to_string(&path).unwrap()).unwrap();
            assert!(!parsed.objects.is_empty() && parsed.notices.is_empty(), "{path:?}: {:?}", parsed.notices);
            seen += 1;
        }
    }
    assert!(seen >= 3);
}
