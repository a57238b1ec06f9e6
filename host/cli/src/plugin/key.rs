//! `volhost plugin key`: the keys with which authors sign, in the files of minisign.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::ops::{Range, RangeFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use minisign::{KeyPair, PublicKey, SecretKey, SecretKeyBox};

use super::password::PasswordSource;
use crate::arguments::{KeyCommand, NewKeyArguments};
use crate::error::CliError;
use crate::output::Output;

/// The largest file of a key that is read, in bytes: they have some hundred.
const FILE_BYTES: u64 = 8 << 10;
/// A secret key's file, for its owner alone.
const SECRET_MODE: u32 = 0o600;
/// A public key's file.
const PUBLIC_MODE: u32 = 0o644;
/// The bytes of a secret key, and what they begin with.
const BYTES: usize = 158;
const ALGORITHM: &[u8] = b"Ed";
/// Where they say how the key is encrypted, and the words for scrypt and for not at all.
const KDF: Range<usize> = 2..4;
const SCRYPT: &[u8] = b"Sc";
const NONE: &[u8] = &[0, 0];
/// Where their checksum is.
const CHECKSUM: RangeFrom<usize> = 126..;

/// Makes a key pair, or prints the public key of a secret one.
pub(super) fn run(command: &KeyCommand, output: &mut Output) -> Result<(), CliError> {
    match command {
        KeyCommand::New(arguments) => new(arguments, output),
        KeyCommand::Public { secret } => {
            let key = open(&secret.key, PasswordSource::of(secret.password_file.as_deref()))?;
            output.write(&public_text(&key, &secret.key)?)
        }
    }
}

/// Reads a secret key. Asks for the password only if the key has one.
///
/// # Errors
/// The file cannot be read or is no secret key of minisign, or the password is not that of the key.
pub(super) fn open(path: &Path, password: PasswordSource<'_>) -> Result<SecretKey, CliError> {
    let text = read(path)?;
    let failed = |why: String| CliError::Failed(format!("{}: {why}", path.display()));
    let bytes = decoded(&text).ok_or_else(|| failed("it is no secret key as minisign writes them".to_owned()))?;
    let has_no_checksum = bytes.get(CHECKSUM).is_some_and(|checksum| checksum.iter().all(|byte| *byte == 0));
    let opened = match bytes.get(KDF) {
        Some(SCRYPT) => SecretKeyBox::from(text).into_secret_key(Some(password.read(path)?)),
        // minisign writes none without a password. That the key is whole shows when it signs.
        Some(NONE) if has_no_checksum => SecretKey::from_bytes(&bytes),
        _ => SecretKeyBox::from(text).into_unencrypted_secret_key(),
    };
    opened.map_err(|error| failed(error.to_string()))
}

/// The bytes in the second line of a secret key's file.
fn decoded(text: &str) -> Option<Vec<u8>> {
    let bytes = BASE64.decode(text.lines().nth(1)?.trim()).ok()?;
    (bytes.len() == BYTES && bytes.starts_with(ALGORITHM)).then_some(bytes)
}

fn read(path: &Path) -> Result<String, CliError> {
    use std::io::Read as _;
    let failed = |source| CliError::File { path: path.to_owned(), source };
    let mut text = String::new();
    fs::File::open(path).map_err(failed)?.take(FILE_BYTES).read_to_string(&mut text).map_err(failed)?;
    Ok(text)
}

/// The public key's file.
fn public_text(key: &SecretKey, path: &Path) -> Result<String, CliError> {
    PublicKey::from_secret_key(key)
        .and_then(|key| key.to_box())
        .map(|key| key.to_string())
        .map_err(|error| CliError::Failed(format!("{}: {error}", path.display())))
}

/// Writes `NAME.key` and `NAME.pub`. Files that exist are kept.
fn new(arguments: &NewKeyArguments, output: &mut Output) -> Result<(), CliError> {
    let with = |extension: &str| {
        let mut path = arguments.name.clone().into_os_string();
        path.push(extension);
        PathBuf::from(path)
    };
    let (secret, public) = (with(".key"), with(".pub"));
    for path in [&secret, &public] {
        if path.symlink_metadata().is_ok() {
            return Err(CliError::Failed(format!(
                "{} exists and is kept: choose another name. Who loses a secret key can sign nothing more for its public key",
                path.display()
            )));
        }
    }
    let failed = |error: minisign::PError| CliError::Failed(format!("the key could not be made: {error}"));
    let pair = if arguments.no_password {
        KeyPair::generate_unencrypted_keypair()
    } else {
        let password = PasswordSource::of(arguments.password_file.as_deref()).read_new(&secret)?;
        KeyPair::generate_encrypted_keypair(Some(password))
    };
    let pair = pair.map_err(failed)?;
    let comment = if arguments.no_password { "minisign secret key" } else { "minisign encrypted secret key" };
    let secret_text = pair.sk.to_box(Some(comment)).map_err(failed)?;
    let public_text = pair.pk.to_box().map_err(failed)?;
    create(&public, PUBLIC_MODE, &public_text.to_bytes())?;
    if let Err(error) = create(&secret, SECRET_MODE, &secret_text.to_bytes()) {
        // A public key without its secret one is of no use.
        let _ = fs::remove_file(&public);
        return Err(error);
    }
    output.line(&format!("{}: the secret key, to sign with", secret.display()))?;
    output.line(&format!("{}: the public key, for those who are to trust you", public.display()))
}

/// Writes a file that does not exist yet; on failure there is none.
fn create(path: &Path, mode: u32, content: &[u8]) -> Result<(), CliError> {
    let failed = |source| CliError::File { path: path.to_owned(), source };
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path).map_err(failed)?;
    file.write_all(content).and_then(|()| file.sync_all()).map_err(|source| {
        let _ = fs::remove_file(path);
        failed(source)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_secret_key_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("acme.key");
        let public = KeyPair::generate_unencrypted_keypair().unwrap().pk.to_box().unwrap().to_string();
        for text in ["", "untrusted comment: a key\n", "untrusted comment: a key\nnot base64\n", public.as_str()] {
            fs::write(&file, text).unwrap();
            let refused = open(&file, PasswordSource::Terminal).unwrap_err().to_string();
            assert!(refused.contains("acme.key"), "{refused}");
        }
        let gone = open(Path::new("/no/such.key"), PasswordSource::Terminal).unwrap_err().to_string();
        assert!(gone.contains("/no/such.key"), "{gone}");
    }
}
