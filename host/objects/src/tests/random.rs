use proptest::prelude::*;

use super::pod;
use crate::parse;

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_the_parser_panic(text in any::<String>()) {
        let _ = parse("test.yaml", &text);
    }

    #[test]
    fn no_piece_of_a_manifest_makes_the_parser_panic(
        pieces in prop::collection::vec(
            prop::sample::select(vec![
                "apiVersion: v1\n", "kind: Pod\n", "kind: List\n", "items:\n", "- ", "metadata: {name: a}\n", "spec:\n", "  ", "volumes: [{name: v}]\n",
                "containers: [{name: c}]\n", "&a ", "*a ", "<<: ", "---\n", "...\n", "!!binary x\n", "\t", "{", "}", "[", "]", "\"", ": ", "| \n", "? ", "1e999", "\n",
            ]),
            0..30,
        ),
    ) {
        let _ = parse("test.yaml", &pieces.concat());
    }

    #[test]
    fn a_cut_or_altered_pod_never_panics(cut in 0_usize..200, at in 0_usize..200, byte in any::<u8>()) {
        let mut bytes = pod("a").into_bytes();
        bytes.truncate(cut);
        if let Some(one) = bytes.get_mut(at) {
            *one = byte;
        }
        if let Ok(text) = String::from_utf8(bytes) {
            let _ = parse("test.yaml", &text);
        }
    }
}
