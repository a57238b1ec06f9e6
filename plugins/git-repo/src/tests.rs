use volhost_plugin_sdk::testing::TestHost;

use super::*;

#[test]
fn a_git_repository_is_refused_with_the_reason_and_the_alternative() {
    let host = TestHost::new();
    let volume = Volume::builder("gitRepo").field("repository", "https://example.com/r.git");
    for error in
        [host.identify::<GitRepo>(&volume).unwrap_err(), host.publish::<GitRepo>(&volume, &Pod::builder()).unwrap_err()]
    {
        assert!(matches!(error, Error::Unsupported(_)), "{error}");
        for words in ["CVE-2024-10220", "emptyDir", "init container"] {
            assert!(error.message().contains(words), "{error}");
        }
    }
    assert!(host.target(volume.name()).is_absent());
    host.unpublish::<GitRepo>(volume.name()).unwrap();
}
