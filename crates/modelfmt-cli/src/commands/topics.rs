//! `modelfmt help TOPIC`: a short page about something that concerns several commands.

use modelfmt::DType;
use modelfmt::convert::Preset;

use crate::failure::Result;

/// Prints the page about a topic, if there is one.
pub(crate) fn topic(name: &str) -> Option<Result> {
    let text = match name {
        "maps" => modelfmt::convert::help_of_maps(),
        "pins" => PINS.to_owned(),
        "keys" => KEYS.to_owned(),
        "urls" => URLS.to_owned(),
        "types" => types(),
        "policy" => POLICY.to_owned(),
        _ => return None,
    };
    Some(super::print(|out| Ok(out.write_all(text.as_bytes())?)))
}

const PINS: &str = "\
A pin says which file you mean. Every command that reads a model takes --pin, and then checks
every byte that it reads; another file, or a damaged one, is an error.

  b3:HEX      the BLAKE3 of the whole file, of any format
  aero:HEX    the BLAKE3 of an AERO's bytes before its payloads, which contain the others' hashes
  seal:HEX    the statement that the signatures of a sealed APR2 sign

  modelfmt outboard model.gguf                   writes model.gguf.obao4 and prints the BLAKE3
  modelfmt verify model.gguf --pin b3:HEX        checks the whole file
  modelfmt inspect URL --pin b3:HEX              reads what it needs, checks it by URL.obao4
  modelfmt fetch URL model.gguf --pin b3:HEX     repairs a damaged copy, piece by piece
  modelfmt inspect model.aero --json             `pins` has those that the file itself states

Without an outboard, b3: needs the whole file: one here is hashed, one at a URL is refused.
Get the pin from somebody you trust, and not from where the file is.
";

const KEYS: &str = "\
A signature shows who made a file. A private key makes it, the public key checks it.

  modelfmt keygen --type p256 -o release.pem     release.pem is for you, release.pem.pub for all
  modelfmt sign model/ --key release.pem         writes model/model.sig, for every file in it
  modelfmt sign model.gguf --key release.pem     writes model.gguf.sig
  modelfmt verify model/ --key release.pem.pub   checks the signature and every file

With --key, every command that reads a model refuses a model that none of the keys has signed.

  p256 p384 p521    sign any file or folder (OpenSSF Model Signing)
  ed25519           signs inside an APR2 file: modelfmt convert … OUT.apr --sign KEY
  x25519            opens, by --identity KEY, an APR2 file made with --seal --to-recipient KEY.pub
";

const URLS: &str = "\
In place of a path you can give a URL. Only the index and the tensors that you ask for are read.

  s3://BUCKET/KEY       Amazon S3, R2, MinIO, …
                        AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION; AWS_ENDPOINT_URL
  gs://BUCKET/KEY       Google Cloud Storage: GOOGLE_APPLICATION_CREDENTIALS
  az://CONTAINER/KEY    Azure Blobs: AZURE_STORAGE_ACCOUNT_NAME with AZURE_STORAGE_ACCOUNT_KEY
  https://…             a web server that answers requests for ranges; only read
  hf://OWNER/REPO/FILE[@REVISION]
                        Hugging Face: HF_TOKEN, HF_ENDPOINT; only read

  modelfmt inspect hf://OWNER/REPO/model.safetensors
  modelfmt extract s3://bucket/model.aero embed.weight -o embed.npy
  modelfmt convert model.safetensors s3://bucket/model.aero
  modelfmt fetch hf://OWNER/REPO folder/         downloads, goes on where it stopped, and repairs
  curl … | modelfmt inspect -                    for a server without ranges

For a bucket that everybody may read, set AWS_SKIP_SIGNATURE, GOOGLE_SKIP_SIGNATURE or
AZURE_SKIP_SIGNATURE to true.
A URL that ends in / is a folder. What is printed never has the password or the query of a URL.
";

const POLICY: &str = r#"A policy says which models may be read, from where and signed by whom. Give it with --policy FILE,
or name the file in MODELFMT_POLICY; then every command that reads a model obeys it. What it refuses
is an error that names the rule.

  default = "refuse"                        # or "allow": for what no rule matches
  [[rule]]                                  # the first rule that matches counts
  match = ["s3://models/**", "/srv/**"]     # paths and URLs; * stays within a folder
  keys = ["release.pub"]                    # who must have signed; paths are relative to the policy
  threshold = 1                             # how many of them
  formats = ["safetensors", "aero"]         # no other opens
  min_revision = 3                          # refuses older signed versions
  pins = { "base.aero" = "aero:HEX" }       # what a file of this name must be

  modelfmt verify models/base.aero --policy policy.toml

--key and --pin never replace a rule. A key in the file that modelfmt does not know is an error.
"#;

fn types() -> String {
    let names = |wanted: fn(DType) -> bool| {
        DType::ALL.iter().filter(|dtype| wanted(**dtype)).map(|dtype| dtype.name()).collect::<Vec<_>>()
    };
    let presets: Vec<&str> = Preset::ALL.iter().map(|preset| preset.name()).collect();
    format!(
        "\
The type of a tensor's values: one of these, or a usual name for it (fp16 and float16 are f16).

  floats     {}
  blocks     {}
  others     {}

  presets    {}

  modelfmt convert IN OUT --cast f16              floats, rounded where that is needed
  modelfmt convert IN OUT --cast '*.norm*=f32'    tensors whose names match; the last match counts
  modelfmt convert IN OUT --quantize q8_0         rank 2 and more, if rows are whole blocks
  modelfmt convert IN OUT --quantize q4_k_m       a preset: each tensor as llama.cpp does it
  modelfmt convert IN OUT --dequantize f32        blocks, and what GPTQ, AWQ and others store
  modelfmt convert IN OUT --widen                 a larger type where OUT lacks one; loses nothing

`--dry-run` lists what each tensor would become.
",
        lines(&names(|dtype| dtype.is_float() && !dtype.is_quantized())),
        lines(&names(DType::is_quantized)),
        lines(&names(|dtype| !dtype.is_float() && !dtype.is_quantized())),
        lines(&presets),
    )
}

/// Returns names in lines that fit next to the names of kinds.
fn lines(names: &[&str]) -> String {
    const ROOM: usize = 86;
    let mut text = String::new();
    let mut len = 0;
    for name in names {
        if len + name.len() > ROOM {
            text.push_str("\n             ");
            len = 0;
        } else if len > 0 {
            text.push(' ');
        }
        text.push_str(name);
        len += name.len() + 1;
    }
    text
}
