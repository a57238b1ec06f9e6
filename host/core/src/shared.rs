//! How what several owners share is written and read: each owner has its own after reading.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// One value.
pub(crate) mod one {
    use super::{Arc, Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<T: Serialize, S: Serializer>(value: &Arc<T>, to: S) -> Result<S::Ok, S::Error> {
        value.as_ref().serialize(to)
    }

    pub(crate) fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Arc<T>, D::Error> {
        T::deserialize(from).map(Arc::new)
    }
}

/// A value or none.
pub(crate) mod option {
    use super::{Arc, Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<T: Serialize, S: Serializer>(value: &Option<Arc<T>>, to: S) -> Result<S::Ok, S::Error> {
        value.as_deref().serialize(to)
    }

    pub(crate) fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Arc<T>>, D::Error> {
        Ok(Option::<T>::deserialize(from)?.map(Arc::new))
    }
}

/// A list.
pub(crate) mod list {
    use super::{Arc, Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<T: Serialize, S: Serializer>(values: &Arc<[T]>, to: S) -> Result<S::Ok, S::Error> {
        values.as_ref().serialize(to)
    }

    pub(crate) fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Arc<[T]>, D::Error> {
        Vec::deserialize(from).map(Arc::from)
    }
}
