//! Reads the credentials and the region of a profile from the configuration files of Amazon's own tools.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::error::Fault;
use crate::options::Environment;

/// The maximum length of a file that is read. No real file is longer.
const MAX_LEN: u64 = 1 << 20;
/// Keys that mean that the credentials of a profile come from elsewhere, such as from another program.
const MADE: [&str; 5] =
    ["credential_process", "sso_session", "sso_start_url", "role_arn", "credential_source"];
/// Environment variables, and the keys for the same values in a profile.
const KEYS: [(&str, &str); 3] = [
    ("AWS_ACCESS_KEY_ID", "aws_access_key_id"),
    ("AWS_SECRET_ACCESS_KEY", "aws_secret_access_key"),
    ("AWS_SESSION_TOKEN", "aws_session_token"),
];

/// Returns the environment, with values from its profile (`AWS_PROFILE`, or `default`) for variables that it
/// lacks.
pub(crate) fn completed(environment: &Environment) -> Result<Environment, Fault> {
    let (named, mut all) = (environment.var("AWS_PROFILE"), environment.clone());
    let profile = named.unwrap_or("default");
    let credentials = section(&file(environment, "AWS_SHARED_CREDENTIALS_FILE", "credentials"), profile);
    let config = file(environment, "AWS_CONFIG_FILE", "config");
    let config = section(&config, &format!("profile {profile}"))
        .or_else(|| section(&config, profile).filter(|_| profile == "default"));
    let says = |key: &str| {
        let of = |section: &Option<Section>| section.as_ref()?.get(key).cloned();
        of(&credentials).or_else(|| of(&config))
    };
    let has_region = ["AWS_REGION", "AWS_DEFAULT_REGION"].iter().any(|name| environment.var(name).is_some());
    if let Some(region) = says("region").filter(|_| !has_region) {
        all = all.with("AWS_REGION", &region);
    }
    let has_own = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_WEB_IDENTITY_TOKEN_FILE"];
    let has_own = has_own.iter().any(|name| environment.var(name).is_some());
    if has_own || environment.is_set("AWS_SKIP_SIGNATURE") {
        return Ok(all);
    }
    let refused = |why: &str| Err(Fault::Settings { service: "S3", why: why.into() });
    if named.is_some() && credentials.is_none() && config.is_none() {
        return refused(
            "the profile that AWS_PROFILE names is in neither ~/.aws/credentials nor ~/.aws/config",
        );
    }
    let (key, secret) = (says("aws_access_key_id"), says("aws_secret_access_key"));
    if key.is_none() || secret.is_none() {
        let is_made = MADE.iter().any(|key| says(key).is_some());
        return match is_made {
            true => refused(
                "the credentials of the profile are made by another program, which is not run; put them into the environment: \
                 aws configure export-credentials --format env",
            ),
            false => Ok(all),
        };
    }
    for (name, key) in KEYS {
        if let Some(value) = says(key) {
            all = all.with(name, &value);
        }
    }
    Ok(all)
}

type Section = BTreeMap<String, String>;

/// Returns the path of a file: from a variable, or in `~/.aws`.
fn file(environment: &Environment, variable: &str, name: &str) -> Option<PathBuf> {
    let home = || environment.var("HOME").or_else(|| environment.var("USERPROFILE"));
    let named = environment.var(variable).map(PathBuf::from);
    named.or_else(|| Some(Path::new(home()?).join(".aws").join(name)))
}

/// Returns the keys and values under a heading; `None` if there is no such heading or file.
fn section(file: &Option<PathBuf>, heading: &str) -> Option<Section> {
    let mut text = String::new();
    File::open(file.as_ref()?).ok()?.take(MAX_LEN).read_to_string(&mut text).ok()?;
    let mut found: Option<Section> = None;
    let mut is_here = false;
    for line in text.lines() {
        if let Some(name) = line.trim().strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            is_here = name.split_whitespace().eq(heading.split_whitespace());
            if is_here {
                found.get_or_insert_default();
            }
            continue;
        }
        // An indented line belongs to the key before it.
        let is_own = is_here && !line.starts_with([' ', '\t', '#', ';']);
        if let (Some(section), Some((key, value))) = (&mut found, line.split_once('=').filter(|_| is_own)) {
            section.insert(key.trim().to_ascii_lowercase(), value.trim().to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the settings that S3 gets from these files and variables.
    fn settings_of(
        credentials: &str,
        config: &str,
        more: &[(&str, &str)],
    ) -> Result<[Option<String>; 4], String> {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let files =
            [("AWS_SHARED_CREDENTIALS_FILE", path("c", credentials)), ("AWS_CONFIG_FILE", path("d", config))];
        let more = more.iter().map(|(name, value)| (*name, (*value).to_owned()));
        let environment = Environment::from_vars(files.into_iter().chain(more));
        let done = completed(&environment).map_err(|fault| fault.to_string())?;
        let names = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION"];
        Ok(names.map(|name| done.var(name).map(str::to_owned)))
    }

    fn are(expected: [&str; 4]) -> Result<[Option<String>; 4], String> {
        Ok(expected.map(|value| Some(value.to_owned()).filter(|value| !value.is_empty())))
    }

    const CREDENTIALS: &str = "# mine\n[default]\naws_access_key_id = A\naws_secret_access_key=S=\n\n[ work ]\naws_access_key_id=B\n\
        aws_secret_access_key = T\naws_session_token = U\n";
    const CONFIG: &str = "[default]\nregion = eu-west-1\ns3 =\n  region = no\n[profile work]\nregion=us-east-2\n[profile sso]\nsso_session = x\n";

    #[test]
    fn a_profile_says_what_the_environment_does_not() {
        assert_eq!(settings_of(CREDENTIALS, CONFIG, &[]), are(["A", "S=", "", "eu-west-1"]));
        assert_eq!(
            settings_of(CREDENTIALS, CONFIG, &[("AWS_PROFILE", "work")]),
            are(["B", "T", "U", "us-east-2"])
        );
        let own = [("AWS_PROFILE", "work"), ("AWS_ACCESS_KEY_ID", "X"), ("AWS_SECRET_ACCESS_KEY", "Y")];
        assert_eq!(settings_of(CREDENTIALS, CONFIG, &own), are(["X", "Y", "", "us-east-2"]));
        assert_eq!(settings_of(CREDENTIALS, "", &[("AWS_REGION", "r")]), are(["A", "S=", "", "r"]));
        assert_eq!(
            settings_of(CREDENTIALS, CONFIG, &[("AWS_SKIP_SIGNATURE", "true")]),
            are(["", "", "", "eu-west-1"])
        );
        assert_eq!(settings_of("", "", &[]), are(["", "", "", ""]));
        assert_eq!(settings_of("no\n=\n[\n[]\nx", "\u{0}", &[]), are(["", "", "", ""]));
    }

    #[test]
    fn a_profile_that_cannot_be_used_is_an_error() {
        let error = settings_of(CREDENTIALS, CONFIG, &[("AWS_PROFILE", "none")]).unwrap_err();
        assert!(error.contains("AWS_PROFILE") && !error.contains("S="), "{error}");
        let error = settings_of(CREDENTIALS, CONFIG, &[("AWS_PROFILE", "sso")]).unwrap_err();
        assert!(error.contains("export-credentials"), "{error}");
    }
}
