//! Runs nginx, as the system installs it.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::Running;

/// How long the log may lag behind the answers.
const PATIENCE: Duration = Duration::from_secs(60);

/// Starts nginx, prints a line when it listens, and ends it when standard input ends.
const SCRIPT: &str = r#"
"$1" -p "$2" -c "$2/nginx.conf" -e "$2/error.log" &
server=$!
trap 'kill $server 2>/dev/null; wait $server' EXIT
for _ in $(seq 1200); do
    kill -0 $server 2>/dev/null || exit 1
    if [ -s "$2/nginx.pid" ]; then echo ready; break; fi
    sleep 0.05
done
cat >/dev/null
"#;

/// Makes a certificate authority, and a certificate signed by it.
const CERTIFICATE: &str = r#"
set -e
new="openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
$new -x509 -days 1 -subj "/CN=authority of a test" -keyout ca.key -out ca.pem
$new -subj "/CN=server of a test" -keyout key.pem -out request.pem
echo "subjectAltName=IP:127.0.0.1" > names
openssl x509 -req -in request.pem -CA ca.pem -CAkey ca.key -CAcreateserial -days 1 -extfile names -out cert.pem
"#;

/// A web server that sends the files of a folder, also by ranges.
#[derive(Debug)]
pub struct Nginx {
    address: String,
    scheme: &'static str,
    work: PathBuf,
    _process: Running,
}

/// A request that nginx has answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The method and the path.
    pub what: String,
    /// The header `Range`, or empty.
    pub range: String,
    /// The header `If-Match`, or empty.
    pub if_match: String,
    /// The status of the answer.
    pub status: u16,
    /// The number of bytes of its body.
    pub nbytes: u64,
}

impl Nginx {
    /// Starts a server for the files of `folder`, which has to be an absolute path. `work` is an empty folder
    /// for the server's own files.
    ///
    /// # Panics
    /// If there is no nginx, or it does not start.
    #[must_use]
    pub fn start(folder: &Path, work: &Path) -> Self {
        Self::start_with(folder, work, "http", "")
    }

    /// Like [`start`](Self::start), with TLS. Its certificate is for the address 127.0.0.1 and valid for a
    /// day. Only clients that are given the [`authority`](Self::authority) trust it.
    ///
    /// # Panics
    /// Like [`start`](Self::start), and if there is no `openssl`.
    #[must_use]
    pub fn start_tls(folder: &Path, work: &Path) -> Self {
        let made = Command::new("sh").args(["-c", CERTIFICATE]).current_dir(work).output();
        let made = made.expect("a shell");
        let said = String::from_utf8_lossy(&made.stderr);
        assert!(made.status.success(), "no certificate (Debian: `apt-get install openssl`): {said}");
        Self::start_with(folder, work, "https", " ssl; ssl_certificate cert.pem; ssl_certificate_key key.pem")
    }

    fn start_with(folder: &Path, work: &Path, scheme: &'static str, tls: &str) -> Self {
        const ATTEMPTS: usize = 8;
        for _ in 0..ATTEMPTS {
            let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
            let address = free.expect("a free port").to_string();
            fs::write(work.join("nginx.conf"), configuration(folder, &format!("{address}{tls}")))
                .expect("a configuration");
            let mut command = Command::new("sh");
            command.args(["-c", SCRIPT, "sh"]).arg(program()).arg(work).stderr(std::process::Stdio::null());
            // Another process may have taken the port in the meantime.
            if let Ok(process) = Running::start(command)
                && TcpStream::connect(&address).is_ok()
            {
                return Self { address, scheme, work: work.to_owned(), _process: process };
            }
        }
        let log = fs::read_to_string(work.join("error.log")).unwrap_or_default();
        panic!("nginx does not start: {log}");
    }

    /// Returns the address at which it listens, as `http://127.0.0.1:PORT`, or `https` with TLS.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    /// Returns the path of the authority's certificate, for a server with TLS.
    #[must_use]
    pub fn authority(&self) -> PathBuf {
        self.work.join("ca.pem")
    }

    /// Returns the requests that the server has answered, in order. It logs requests after answering them, so
    /// this waits until there are `at_least` of them.
    ///
    /// # Panics
    /// If there are fewer after a minute.
    #[must_use]
    pub fn requests(&self, at_least: usize) -> Vec<Request> {
        let begun = Instant::now();
        loop {
            let log = fs::read_to_string(self.work.join("access.log")).unwrap_or_default();
            let requests: Vec<Request> = log.split_inclusive('\n').filter_map(logged).collect();
            if requests.len() >= at_least {
                return requests;
            }
            assert!(begun.elapsed() < PATIENCE, "{at_least} requests were to be answered, {requests:?} were");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Parses a line of the log, if it is complete.
fn logged(line: &str) -> Option<Request> {
    let mut parts = line.strip_suffix('\n')?.split('\t').map(str::to_owned);
    Some(Request {
        what: parts.next()?,
        range: parts.next()?,
        if_match: parts.next()?,
        status: parts.next()?.parse().ok()?,
        nbytes: parts.next()?.parse().ok()?,
    })
}

fn configuration(folder: &Path, address: &str) -> String {
    let folder = folder.display();
    format!(
        "daemon off; master_process off; worker_processes 1; pid nginx.pid;
events {{ worker_connections 256; }}
http {{
    log_format short escape=none '$request_method $uri\t$http_range\t$http_if_match\t$status\t$body_bytes_sent';
    access_log access.log short;
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    server {{ listen {address}; root {folder}; }}
}}
"
    )
}

/// Returns the path of nginx, which Debian installs in a folder that may only be in the administrator's
/// `PATH`.
fn program() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    let mut programs = folders.map(|folder| folder.join("nginx"));
    let found = programs.find(|program| program.exists());
    found.unwrap_or_else(|| panic!("no nginx: install it (Debian: `apt-get install nginx`)"))
}
