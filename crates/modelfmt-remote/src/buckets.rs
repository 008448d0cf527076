//! Connects to buckets, with the settings from the environment that the providers' own tools read.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::list::PaginatedListStore;
use object_store::multipart::MultipartStore;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};

use crate::client::{Client, Connector};
use crate::crypto::Crypto;
use crate::error::Fault;
use crate::guard::Guard;
use crate::options::{Environment, Options};
use crate::profile;
use crate::url::Service;

/// A bucket to which objects can be uploaded in parts.
pub(crate) trait Writable: ObjectStore + MultipartStore {}

impl<S: ObjectStore + MultipartStore> Writable for S {}

/// A bucket that can also list its objects in pages.
pub(crate) trait Listable: Writable + PaginatedListStore {}

impl<S: Writable + PaginatedListStore> Listable for S {}

/// Returns the store of a bucket. It retries a request up to `retries` times.
pub(crate) fn store(
    service: Service,
    bucket: &str,
    options: &Options,
    retries: u32,
) -> Result<Arc<dyn Listable>, Fault> {
    let guard = Guard::new(None, true).with_metadata(options.instance_credentials);
    let common = Common { connector: Connector(Client::new(guard, options)), retry: retry(options, retries) };
    let environment = &match service {
        Service::S3 => profile::completed(&options.environment)?,
        Service::Gs | Service::Az => options.environment.clone(),
    };
    check_credentials(service, environment, options.instance_credentials)?;
    let store = match service {
        Service::S3 => common.s3(bucket, environment),
        Service::Gs => common.gs(bucket, environment),
        Service::Az => common.az(bucket, environment),
    };
    store.map_err(|error| Fault::Settings { service: name(service), why: settings(&error) })
}

struct Common {
    connector: Connector,
    retry: RetryConfig,
}

impl Common {
    fn s3(self, bucket: &str, environment: &Environment) -> object_store::Result<Arc<dyn Listable>> {
        let mut builder = AmazonS3Builder::new();
        for (key, value) in keys(environment, "AWS_") {
            if let Ok(key) = AmazonS3ConfigKey::from_str(&key) {
                builder = builder.with_config(key, value);
            }
        }
        let builder = builder.with_bucket_name(bucket).with_client_options(client_options());
        let builder = builder.with_retry(self.retry).with_crypto_provider(Arc::new(Crypto));
        Ok(Arc::new(builder.with_http_connector(self.connector).build()?))
    }

    fn gs(self, bucket: &str, environment: &Environment) -> object_store::Result<Arc<dyn Listable>> {
        let mut builder = GoogleCloudStorageBuilder::new();
        for (key, value) in keys(environment, "GOOGLE_") {
            if let Ok(key) = GoogleConfigKey::from_str(&key) {
                builder = builder.with_config(key, value);
            }
        }
        let builder = builder.with_bucket_name(bucket).with_client_options(client_options());
        let builder = builder.with_retry(self.retry).with_crypto_provider(Arc::new(Crypto));
        Ok(Arc::new(builder.with_http_connector(self.connector).build()?))
    }

    fn az(self, container: &str, environment: &Environment) -> object_store::Result<Arc<dyn Listable>> {
        let mut builder = MicrosoftAzureBuilder::new();
        for (key, value) in keys(environment, "AZURE_") {
            if let Ok(key) = AzureConfigKey::from_str(&key) {
                builder = builder.with_config(key, value);
            }
        }
        let builder = builder.with_container_name(container).with_client_options(client_options());
        let builder = builder.with_retry(self.retry).with_crypto_provider(Arc::new(Crypto));
        Ok(Arc::new(builder.with_http_connector(self.connector).build()?))
    }
}

/// Returns the variables with a prefix, under the names that object_store uses.
fn keys<'a>(environment: &'a Environment, prefix: &'a str) -> impl Iterator<Item = (String, &'a str)> {
    let set = environment.with_prefix(prefix).filter(|(_, value)| !value.is_empty());
    set.map(|(name, value)| (name.to_ascii_lowercase(), value))
}

/// Returns client options that allow HTTP without TLS: only an endpoint in the environment can ask for it.
fn client_options() -> ClientOptions {
    ClientOptions::new().with_allow_http(true)
}

fn retry(options: &Options, retries: u32) -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: options.first_wait,
            max_backoff: options.longest_wait,
            base: 2.0,
        },
        max_retries: usize::try_from(retries).unwrap_or(usize::MAX),
        // A long object may take longer than usual. If the server is silent, the client gives up earlier.
        retry_timeout: options.stall_timeout.max(Duration::from_secs(180)),
    }
}

pub(crate) const fn name(service: Service) -> &'static str {
    match service {
        Service::S3 => "S3",
        Service::Gs => "Google Cloud Storage",
        Service::Az => "Azure Blob Storage",
    }
}

/// Returns the error of a builder in short form, because its text may quote secret values.
fn settings(error: &object_store::Error) -> Box<str> {
    match error {
        object_store::Error::UnknownConfigurationKey { key, .. } => format!("{key} is unknown").into(),
        _ => "a key, an endpoint or a region is missing or malformed".into(),
    }
}

/// Checks that the environment has credentials or asks for anonymous access. Otherwise object_store would ask
/// the metadata address, which is allowed only with an option.
fn check_credentials(service: Service, environment: &Environment, asks_instance: bool) -> Result<(), Fault> {
    let any = |names: &[&str]| names.iter().any(|name| environment.var(name).is_some());
    let (skips, is_found, help) = match service {
        Service::S3 => (
            "AWS_SKIP_SIGNATURE",
            (any(&["AWS_ACCESS_KEY_ID"]) && any(&["AWS_SECRET_ACCESS_KEY"]))
                || any(&["AWS_WEB_IDENTITY_TOKEN_FILE"]),
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or AWS_PROFILE, or AWS_SKIP_SIGNATURE=true for a public bucket, or allow those of \
             this machine (--allow-instance-credentials)",
        ),
        Service::Gs => (
            "GOOGLE_SKIP_SIGNATURE",
            any(&[
                "GOOGLE_APPLICATION_CREDENTIALS",
                "GOOGLE_SERVICE_ACCOUNT",
                "GOOGLE_SERVICE_ACCOUNT_PATH",
                "GOOGLE_SERVICE_ACCOUNT_KEY",
            ]),
            "set GOOGLE_APPLICATION_CREDENTIALS, or GOOGLE_SKIP_SIGNATURE=true for a public bucket, or allow those of this machine \
             (--allow-instance-credentials)",
        ),
        Service::Az => (
            "AZURE_SKIP_SIGNATURE",
            any(&[
                "AZURE_STORAGE_ACCOUNT_KEY",
                "AZURE_STORAGE_ACCESS_KEY",
                "AZURE_STORAGE_SAS_KEY",
                "AZURE_STORAGE_SAS_TOKEN",
                "AZURE_STORAGE_TOKEN",
                "AZURE_STORAGE_CLIENT_SECRET",
                "AZURE_CLIENT_SECRET",
                "AZURE_FEDERATED_TOKEN_FILE",
            ]) || environment.is_set("AZURE_STORAGE_USE_EMULATOR"),
            "set AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN, or AZURE_SKIP_SIGNATURE=true for a public container, or allow \
             those of this machine (--allow-instance-credentials)",
        ),
    };
    if is_found || asks_instance || environment.is_set(skips) {
        return Ok(());
    }
    Err(Fault::NoCredentials { service: name(service), help })
}
