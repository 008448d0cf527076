//! A server of Azure Blob Storage: Azurite, from npm.

use std::path::PathBuf;
use std::process::Command;

use super::{Response, Running, request};

/// The variable that names a folder whose `node_modules` has azurite.
const VARIABLE: &str = "MODELFMT_SERVERS_AZURE";

/// Prints the address at which it listens, and ends when its standard input ends. It does not check the
/// version of the protocol, because clients may use a newer one than Azurite knows.
const SCRIPT: &str = "
const say = console.log;
console.log = text => { const at = /successfully listens on http:..(\\S+)/.exec(text); if (at) say(at[1]); };
process.stdin.resume();
process.stdin.on('end', () => process.exit(0));
const options = '--inMemoryPersistence --blobHost 127.0.0.1 --blobPort 0 --skipApiVersionCheck --disableTelemetry --silent';
process.argv = ['node', 'azurite-blob', ...options.split(' ')];
require(process.cwd() + '/node_modules/azurite/dist/src/blob/main.js');
";

/// The account that every emulator has, with the key from its documentation.
const ACCOUNT: &str = "devstoreaccount1";
const KEY: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
/// A signature by that key that allows everything, so that tests need not sign.
const ALLOWED: &str = "sv=2019-12-12&ss=b&srt=sco&sp=rwdlac&se=2099-01-01T00%3A00%3A00Z&spr=https%2Chttp&\
    sig=0inStVod1SiNNw%2FCJ4fRrpJIdRZAadbisT7bZCD4KQs%3D";

/// A server that speaks Azure's protocol and keeps its containers in memory. It checks signatures.
#[derive(Debug)]
pub struct Azure {
    address: String,
    _process: Running,
}

impl Azure {
    /// Starts a server.
    ///
    /// # Panics
    /// If Azurite is not installed, or does not start.
    #[must_use]
    pub fn start() -> Self {
        let folder = folder();
        let mut command = Command::new("node");
        command.args(["-e", SCRIPT]).current_dir(&folder);
        let help = "run `cargo xtask servers`";
        let process = Running::start(command).unwrap_or_else(|e| panic!("{}: {e}; {help}", folder.display()));
        Self { address: process.first_line.trim().to_owned(), _process: process }
    }

    /// Returns the environment for a program that uses this server.
    #[must_use]
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("AZURE_STORAGE_ENDPOINT", format!("http://{}/{ACCOUNT}", self.address)),
            ("AZURE_ALLOW_HTTP", "true".to_owned()),
            ("AZURE_STORAGE_ACCOUNT_NAME", ACCOUNT.to_owned()),
            ("AZURE_STORAGE_ACCOUNT_KEY", KEY.to_owned()),
        ]
    }

    fn request(&self, method: &str, path: &str, query: &str, head: &str, body: &[u8]) -> Response {
        request(&self.address, method, &format!("/{ACCOUNT}/{path}?{query}{ALLOWED}"), head, body)
    }

    /// Makes a container.
    ///
    /// # Panics
    /// If the server refuses.
    pub fn make_container(&self, container: &str) {
        let made = self.request("PUT", container, "restype=container&", "", b"");
        assert_eq!(made.status, 201, "{}", made.head);
    }

    /// Uploads a blob.
    ///
    /// # Panics
    /// If the server refuses.
    pub fn put(&self, container: &str, key: &str, body: &[u8]) {
        let head = "x-ms-blob-type: BlockBlob\r\n";
        let put = self.request("PUT", &format!("{container}/{key}"), "", head, body);
        assert_eq!(put.status, 201, "{}", put.head);
    }

    /// Returns the bytes of a blob, if it exists.
    #[must_use]
    pub fn get(&self, container: &str, key: &str) -> Option<Vec<u8>> {
        let response = self.request("GET", &format!("{container}/{key}"), "", "", b"");
        (response.status == 200).then_some(response.body)
    }
}

fn folder() -> PathBuf {
    if let Some(path) = std::env::var_os(VARIABLE) {
        return path.into();
    }
    let path = crate::workspace::root().join("target/servers-azure");
    assert!(path.exists(), "no server of Azure: run `cargo xtask servers`, or name a folder in {VARIABLE}");
    path
}
