//! Checks the compiler errors of wrong plugins: the text beside each file of `tests/errors`. The
//! compiler's own text is part of it; when a newer Rust changes that,
//! `TRYBUILD=overwrite cargo test --workspace --test sdk` records them again.

#[test]
fn errors_explain_the_mistake_in_terms_of_plugins() {
    let plugins = trybuild::TestCases::new();
    plugins.compile_fail("tests/errors/*.rs");
    plugins.pass("tests/right/*.rs");
}
