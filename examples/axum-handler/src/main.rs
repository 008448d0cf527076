//! A web service that describes a tensor of a model in a bucket or on a web server. The handler opens the
//! model asynchronously, and fetches only its index and that tensor.
//!
//! ```sh
//! cargo run                                        # a service over a web server of its own, asked once
//! cargo run -- https://example.org/models/ 8000    # a service over the models in that folder, on port 8000
//! curl http://127.0.0.1:8000/model.safetensors/embed.weight
//! ```

#[path = "../../http-range/src/server.rs"]
mod server;

use std::env;
use std::error::Error;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use modelfmt::AsyncModel;
use modelfmt_remote::{Options, SiblingFiles, Store};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::task::LocalPoolHandle;

/// The model that the example serves to itself.
const MODEL: &str = "/../../testdata/reference/one-shard.aero";

type Answer = Result<Json<Value>, (StatusCode, String)>;

/// The service chooses the folder: if clients could name any URL, they could make the service send requests
/// to any server.
#[derive(Clone)]
struct Service {
    folder: SiblingFiles,
    /// Runs the futures of models, each of which stays on one thread, because requests of a browser do. While
    /// one waits for its server, its thread works on others.
    threads: LocalPoolHandle,
}

async fn tensor(State(service): State<Service>, Path((file, name)): Path<(String, String)>) -> Answer {
    let Service { folder, threads } = service;
    let answer = threads.spawn_pinned(|| async move { statistics(folder, &file, &name).await });
    answer.await.unwrap_or_else(|error| Err((StatusCode::INTERNAL_SERVER_ERROR, error.to_string())))
}

/// Returns a description of a tensor, and statistics of its values.
async fn statistics(folder: SiblingFiles, file: &str, name: &str) -> Answer {
    let failed = |error: modelfmt::Error| match error {
        modelfmt::Error::NoSuchTensor { .. } => (StatusCode::NOT_FOUND, error.to_string()),
        _ => (StatusCode::BAD_GATEWAY, error.to_string()),
    };
    let model = AsyncModel::open(folder, file).await.map_err(failed)?;
    let tensor = model.tensor(name).await.map_err(failed)?;
    // For large tensors this takes a while: use `tokio::task::spawn_blocking`.
    let values =
        modelfmt::to_f32(&tensor).map_err(|error| (StatusCode::UNPROCESSABLE_ENTITY, error.to_string()))?;
    let (least, most) = values
        .iter()
        .fold((f32::INFINITY, f32::NEG_INFINITY), |(least, most), &x| (least.min(x), most.max(x)));
    let mean = values.iter().map(|&x| f64::from(x)).sum::<f64>() / values.len() as f64;
    Ok(Json(json!({
        "format": model.format().name(), "dtype": tensor.dtype().to_string(), "shape": tensor.shape(),
        "min": least, "max": most, "mean": mean,
    })))
}

/// Returns the service over the models in the folder of `url`.
fn service(url: &str) -> Result<Router, Box<dyn Error>> {
    let folder = SiblingFiles::new(Store::new(Options::new()), url.parse()?);
    Ok(Router::new()
        .route("/{file}/{tensor}", get(tensor))
        .with_state(Service { folder, threads: LocalPoolHandle::new(1) }))
}

/// Runs a service over a web server that has one model, and answers one request.
async fn ask(path: String) -> Result<String, Box<dyn Error>> {
    let url = server::serve("/model.aero", std::fs::read([env!("CARGO_MANIFEST_DIR"), MODEL].concat())?)?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let running = tokio::spawn(axum::serve(listener, service(&url)?).into_future());
    let answer = tokio::task::spawn_blocking(move || request(address, &path)).await??;
    running.abort();
    Ok(answer)
}

fn request(address: SocketAddr, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let Some(url) = env::args().nth(1) else {
            println!("{}", ask("/model.aero/embed.weight".to_owned()).await?);
            return Ok(());
        };
        let port: u16 = env::args().nth(2).unwrap_or_default().parse()?;
        Ok(axum::serve(TcpListener::bind(("127.0.0.1", port)).await?, service(&url)?).await?)
    })
}

#[cfg(test)]
mod tests;
