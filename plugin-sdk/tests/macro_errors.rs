//! What an author is told whose plugin does not compile: the words beside each file of
//! `tests/errors`. The compiler's own words are among them; when a newer Rust says them in another
//! way, `TRYBUILD=overwrite cargo test --workspace --test sdk` records them again.

#[test]
fn errors_say_what_is_wrong_in_words_of_plugins() {
    let plugins = trybuild::TestCases::new();
    plugins.compile_fail("tests/errors/*.rs");
    plugins.pass("tests/right/*.rs");
}
