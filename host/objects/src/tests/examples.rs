use std::fs;
use std::path::Path;

use crate::parse;

#[test]
fn the_examples_are_good_manifests_without_notices() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut seen = 0;
    let paths = |folder: &Path| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    let folders = paths(&folder).into_iter().filter(|path| path.is_dir()).flat_map(|kind| paths(&kind));
    for path in paths(&folder).into_iter().chain(folders) {
        if path.extension().is_some_and(|ending| ending == "yaml") {
            let parsed =
                parse(path.file_name().unwrap().to_str().unwrap(), &fs::read_to_string(&path).unwrap()).unwrap();
            assert!(!parsed.objects.is_empty(), "{path:?}");
            assert_eq!((parsed.notices, parsed.unknown_fields), (vec![], vec![]), "{path:?}");
            seen += 1;
        }
    }
    assert!(seen >= 8);
}
