//! The shapes that tensors must have according to the config.

use std::str::FromStr;

use crate::{Config, MapError};

/// A shape of a map: `vocab_size, hidden_size`, or `2*intermediate_size, hidden_size`; `?` stands for any size.
#[derive(Clone, Debug)]
pub(crate) struct Shape(Vec<Size>);

/// A size: a sum of products of counts; `None` is any size.
#[derive(Clone, Debug)]
struct Size(Option<Vec<Vec<Factor>>>);

#[derive(Clone, Debug)]
enum Factor {
    Number(u64),
    /// A key of the config.
    Key(String),
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let factor = |text: &str| match text.trim() {
            "" => Err(format!("{text:?} is no factor of a size")),
            text => Ok(text.parse().map_or_else(|_| Factor::Key(text.to_owned()), Factor::Number)),
        };
        let size = |text: &str| match text.trim() {
            "?" => Ok(Size(None)),
            sum => {
                let products = sum.split('+').map(|product| product.split('*').map(factor).collect());
                products.collect::<Result<_, String>>().map(|products| Size(Some(products)))
            }
        };
        text.split(',').map(size).collect::<Result<_, String>>().map(Self)
    }
}

impl Shape {
    /// Fails unless the tensor has this shape.
    pub(crate) fn check(&self, config: &Config, name: &str, found: &[u64]) -> Result<(), MapError> {
        let sizes = self.sizes(config)?;
        let is_same = |(size, found): (&Option<u64>, &u64)| size.is_none_or(|size| size == *found);
        if sizes.len() == found.len() && sizes.iter().zip(found).all(is_same) {
            return Ok(());
        }
        let wants: Vec<String> =
            sizes.iter().map(|size| size.map_or_else(|| "?".to_owned(), |size| size.to_string())).collect();
        Err(MapError::WrongShape {
            name: name.to_owned(),
            found: found.to_vec(),
            wants: format!("[{}]", wants.join(", ")),
        })
    }

    /// Returns the sizes; `None` is any size.
    pub(crate) fn sizes(&self, config: &Config) -> Result<Vec<Option<u64>>, MapError> {
        let factor = |factor: &Factor| match factor {
            Factor::Number(number) => Ok(*number),
            Factor::Key(key) => config.count(key),
        };
        // A product that is too large for a number saturates. No tensor has such a size.
        let product = |factors: &Vec<Factor>| {
            factors.iter().try_fold(1u64, |size, one| Ok(size.saturating_mul(factor(one)?)))
        };
        let size = |size: &Size| match &size.0 {
            None => Ok(None),
            Some(products) => {
                let sum = products.iter().try_fold(0u64, |sum, one| Ok(sum.saturating_add(product(one)?)));
                sum.map(Some)
            }
        };
        self.0.iter().map(size).collect()
    }
}
