//! The two ways to request a range of a file: from a web server, and from a bucket.

use crate::answer::{Answer, Ask, Version};
use crate::bucket::BucketObject;
use crate::error::Fault;
use crate::web::Web;

/// The maximum number of bytes of one request. A longer range takes several requests at the same time.
pub(crate) const PIECE: u64 = 8 << 20;

/// How a file is requested.
pub(crate) enum Transport {
    Web(Box<Web>),
    Bucket(BucketObject),
}

impl Transport {
    pub(crate) async fn get(&self, ask: &Ask, pin: Option<&Version>) -> Result<Answer, Fault> {
        match self {
            Self::Web(web) => web.get(ask, pin).await,
            Self::Bucket(object) => object.get(ask, pin).await,
        }
    }
}
