use super::*;

fn asked(path: &str) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(ask(path.to_owned())).unwrap()
}

#[test]
fn statistics_are_those_of_the_file_at_hand() {
    let answer = asked("/model.aero/embed.weight");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let json: Value = serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    let model = modelfmt::Model::open([env!("CARGO_MANIFEST_DIR"), MODEL].concat()).unwrap();
    let tensor = model.tensor("embed.weight").unwrap();
    let values = tensor.to_vec::<f32>().unwrap();
    assert_eq!((&json["format"], &json["dtype"]), (&"aero".into(), &"f32".into()), "{json}");
    assert_eq!(json["shape"], json!(tensor.shape()), "{json}");
    assert_eq!(json["min"].as_f64(), values.iter().copied().reduce(f32::min).map(f64::from));
    assert_eq!(json["max"].as_f64(), values.iter().copied().reduce(f32::max).map(f64::from));
    let sum: f64 = values.iter().map(|&x| f64::from(x)).sum();
    assert_eq!(json["mean"].as_f64(), Some(sum / 128.0));
}

#[test]
fn what_is_not_there_is_said() {
    let answer = asked("/model.aero/no.weight");
    assert!(answer.starts_with("HTTP/1.1 404 ") && answer.contains("no.weight"), "{answer}");
    let answer = asked("/other.aero/embed.weight");
    assert!(answer.starts_with("HTTP/1.1 502 ") && answer.contains("other.aero"), "{answer}");
    // Not a file of the folder, so there is no request for it.
    let answer = asked("/..%2Fmodel.aero/embed.weight");
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
}
