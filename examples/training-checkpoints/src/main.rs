//! Fits a linear model by gradient descent and writes a checkpoint every 100 steps. Each checkpoint appears
//! complete or not at all, whatever happens to the process. Then training resumes from one in the middle and
//! arrives at the same bits.
//!
//! ```sh
//! cargo run                 # into a temporary folder
//! cargo run -- checkpoints  # into a folder that exists
//! ```

use std::env;
use std::error::Error;
use std::path::{Path, PathBuf};

use mag::value::{Object, Value};
use mag::write::Overwrite;
use mag::{Checksum, DType, Execution, Plan, Reader, TensorSpec, WriteOptions};

/// The solution: y = w · x + b.
const TRUTH: ([f32; 3], f32) = ([1.5, -2.0, 0.25], 0.75);
const STEPS: i64 = 400;
const EACH: i64 = 100;

fn main() -> Result<(), Box<dyn Error>> {
    let temporary = tempfile::tempdir()?;
    let folder = env::args_os().nth(1).map_or_else(|| temporary.path().to_owned(), PathBuf::from);

    let mut trained = Linear::default();
    trained.train(STEPS, |model| model.save(&checkpoint(&folder, model.step)))?;

    let middle = checkpoint(&folder, STEPS / 2);
    let mut resumed = Linear::load(&middle)?;
    println!("goes on from {} at step {}", middle.display(), resumed.step);
    resumed.train(STEPS, |_| Ok(()))?;

    let same = resumed == Linear::load(&checkpoint(&folder, STEPS))?;
    println!("w = {:?}, b = {}, after {} steps", resumed.weight, resumed.bias, resumed.step);
    println!("the same bits as without the pause: {same}");
    if same && resumed == trained { Ok(()) } else { Err("the models differ".into()) }
}

fn checkpoint(folder: &Path, step: i64) -> PathBuf {
    folder.join(format!("step-{step:05}.mag"))
}

/// The model, and the state of its training. A checkpoint has both; otherwise resuming would give different
/// results.
#[derive(Clone, Debug, Default, PartialEq)]
struct Linear {
    weight: [f32; 3],
    bias: f32,
    /// The gradients' running mean, for momentum.
    velocity: [f32; 4],
    step: i64,
    loss: f64,
}

impl Linear {
    /// Trains up to `last` steps and calls `save` every [`EACH`] steps.
    fn train(
        &mut self,
        last: i64,
        save: impl Fn(&Self) -> Result<(), Box<dyn Error>>,
    ) -> Result<(), Box<dyn Error>> {
        let samples = samples();
        while self.step < last {
            self.descend(&samples);
            if self.step % EACH == 0 {
                println!("step {} loss {:.3e}", self.step, self.loss);
                save(self)?;
            }
        }
        Ok(())
    }

    fn descend(&mut self, samples: &[([f32; 3], f32)]) {
        let mut gradient = [0.0; 4];
        self.loss = 0.0;
        for (x, y) in samples {
            let predicted: f32 = self.weight.iter().zip(x).map(|(w, x)| w * x).sum::<f32>() + self.bias;
            let off = predicted - y;
            self.loss += f64::from(off * off) / samples.len() as f64;
            for (sum, x) in gradient.iter_mut().zip(x.iter().chain([&1.0])) {
                *sum += 2.0 * off * x / samples.len() as f32;
            }
        }
        let parameters = self.weight.iter_mut().chain([&mut self.bias]);
        for ((parameter, velocity), gradient) in parameters.zip(&mut self.velocity).zip(gradient) {
            *velocity = 0.9 * *velocity + gradient;
            *parameter -= 0.02 * *velocity;
        }
        self.step += 1;
    }

    /// Writes a checkpoint next to its target, flushes it and renames it. If the process is killed in the
    /// meantime, the previous checkpoint remains.
    fn save(&self, path: &Path) -> Result<(), Box<dyn Error>> {
        let metadata = Object::from_iter([("step", Value::from(self.step)), ("loss", self.loss.into())]);
        let specs = [
            TensorSpec::new("weight", DType::F32, vec![3]),
            TensorSpec::new("bias", DType::F32, vec![]),
            TensorSpec::new("velocity", DType::F32, vec![4]),
        ];
        let values = [bytes(&self.weight), bytes(&[self.bias]), bytes(&self.velocity)];
        // With magnetron's checksum, so that magnetron can open the file too.
        let plan = Plan::new(specs, &metadata, &WriteOptions::new().checksum(Checksum::Crc32c))?;
        Ok(plan.write_file(path, Overwrite::Replace, &values, &Execution::default())?)
    }

    fn load(path: &Path) -> Result<Self, Box<dyn Error>> {
        let file = Reader::open(path)?; // a checksum that does not match is an error here
        let metadata = file.metadata()?;
        let (step, loss) = (metadata.required_i64("step")?, metadata.required_f64("loss")?);
        // Each line returns an error if the type or the number of elements differs from the model's.
        let weight = file.tensor("weight")?.as_slice()?.try_into()?;
        let [bias] = file.tensor("bias")?.as_slice()?.try_into()?;
        let velocity = file.tensor("velocity")?.as_slice()?.try_into()?;
        Ok(Self { weight, bias, velocity, step, loss })
    }
}

/// Converts values to the bytes of a file: little-endian.
fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Returns points on the plane to be found, the same in each run.
fn samples() -> Vec<([f32; 3], f32)> {
    let mut state = 1u32;
    let mut random = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    let (weight, bias) = TRUTH;
    let point = |_| {
        let x = [random(), random(), random()];
        (x, x.iter().zip(weight).map(|(x, w)| x * w).sum::<f32>() + bias)
    };
    (0..64).map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_holds_the_whole_state() {
        let folder = tempfile::tempdir().unwrap();
        let path = checkpoint(folder.path(), 7);
        let mut model = Linear::default();
        model.train(7, |_| Ok(())).unwrap();
        model.save(&path).unwrap();
        assert_eq!(Linear::load(&path).unwrap(), model);
        model.train(8, |_| Ok(())).unwrap();
        model.save(&path).unwrap(); // replaces it
        assert_eq!(Linear::load(&path).unwrap().step, 8);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
    }

    #[test]
    fn training_finds_the_truth() {
        let mut model = Linear::default();
        model.train(STEPS, |_| Ok(())).unwrap();
        let near = |a: f32, b: f32| (a - b).abs() < 1e-3;
        let (weight, bias) = TRUTH;
        assert!(
            model.weight.iter().zip(weight).all(|(&a, b)| near(a, b)) && near(model.bias, bias),
            "{model:?}"
        );
    }

    #[test]
    fn a_damaged_checkpoint_is_not_loaded() {
        let folder = tempfile::tempdir().unwrap();
        let path = checkpoint(folder.path(), 0);
        Linear::default().save(&path).unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[30] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        assert!(Linear::load(&path).is_err());
    }
}
