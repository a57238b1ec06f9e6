//! A volume's source as a struct of the plugin's own (feature `serde`).
//!
//! The source is read field by field. An error has the form of the other getters: the field's path,
//! the value, and what would be right. A field that the struct does not have is refused, with the
//! nearest one that it has.
//!
//! ```
//! use serde::Deserialize;
//! use volhost_plugin_sdk::prelude::*;
//! use volhost_plugin_sdk::{Bytes, Mode};
//!
//! /// `scratch: {size: 64Mi, mode: 0750, purpose: cache, paths: [a, b]}`
//! #[derive(Deserialize)]
//! #[serde(rename_all = "camelCase")]
//! struct Scratch {
//!     size: Bytes,
//!     #[serde(default)]
//!     mode: Option<Mode>,
//!     #[serde(default)]
//!     purpose: Purpose,
//!     #[serde(default)]
//!     sub_paths: Vec<String>,
//! }
//!
//! #[derive(Default, Deserialize, Debug, PartialEq)]
//! #[serde(rename_all = "kebab-case")]
//! enum Purpose {
//!     #[default]
//!     Work,
//!     Cache,
//! }
//!
//! # use volhost_plugin_sdk::testing::TestHost;
//! # let host = TestHost::new();
//! let volume = Volume::builder("scratch").field("size", "64Mi").field("purpose", "cache");
//! let source: Scratch = volume.handle().parse()?;
//! assert_eq!(source.size.count(), 64 << 20);
//! assert_eq!(source.purpose, Purpose::Cache);
//!
//! let message = |volume: volhost_plugin_sdk::testing::TestVolume| {
//!     volume.handle().parse::<Scratch>().err().expect("something is wrong").to_string()
//! };
//! assert_eq!(message(Volume::builder("scratch")), "scratch.size: is missing, and required");
//! let misspelt = Volume::builder("scratch").field("size", "1Gi").field("purpos", "cache");
//! assert!(message(misspelt).starts_with("scratch.purpos: no such field; did you mean purpose?"));
//! # Ok::<(), Error>(())
//! ```

use std::fmt;

use serde::de::value::StringDeserializer;
use serde::de::{self, Deserialize, DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer, Visitor};

use crate::error::Result;
use crate::field_kind::FieldKind;
use crate::mode::Mode;
use crate::quantity::Bytes;
use crate::quote::quoted;
use crate::suggest;
use crate::volume::{Volume, join};

impl Volume<'_> {
    /// The whole source as a `T`; see [`source`](crate::source).
    ///
    /// # Errors
    /// [`InvalidArgument`](crate::Error::InvalidArgument) naming the field.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T> {
        self.parse_at("")
    }

    /// The part of the source at a path, as a `T`: one entry of a list, say.
    ///
    /// # Errors
    /// [`InvalidArgument`](crate::Error::InvalidArgument) naming the field.
    ///
    /// ```
    /// # use volhost_plugin_sdk::prelude::*;
    /// # let _host = volhost_plugin_sdk::testing::TestHost::new();
    /// let volume = Volume::builder("shares").field("server.name", "s1");
    /// assert_eq!(volume.handle().parse_at::<String>("server.name")?, "s1");
    /// # Ok::<(), Error>(())
    /// ```
    pub fn parse_at<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        let at = Place { volume: self, path: path.to_owned() };
        T::deserialize(at).map_err(|fault| self.invalid(&fault.path.unwrap_or_else(|| path.to_owned()), fault.words))
    }
}

/// An error, and its path as soon as that is known.
#[derive(Debug)]
struct Fault {
    path: Option<String>,
    /// A field below the path, while the path is not known.
    field: Option<String>,
    words: String,
}

impl Fault {
    fn new(words: impl fmt::Display) -> Self {
        Self { path: None, field: None, words: words.to_string() }
    }

    /// The innermost place counts.
    fn at(mut self, path: &str) -> Self {
        if self.path.is_none() {
            self.path = Some(self.field.take().map_or_else(|| path.to_owned(), |field| join(path, &field)));
        }
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.words)
    }
}

impl std::error::Error for Fault {}

impl de::Error for Fault {
    fn custom<T: fmt::Display>(words: T) -> Self {
        Self::new(words)
    }

    fn missing_field(field: &'static str) -> Self {
        Self { field: Some(field.to_owned()), ..Self::new("is missing, and required") }
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        Self::new(suggest::unknown(&format!("{} is not known", quoted(variant)), variant, expected, quoted))
    }

    fn invalid_type(unexpected: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::new(format_args!("is {unexpected}, and must be {expected}"))
    }

    fn invalid_value(unexpected: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::new(format_args!("is {unexpected}, and must be {expected}"))
    }
}

/// A place in a source.
struct Place<'v> {
    volume: &'v Volume<'v>,
    path: String,
}

impl<'v> Place<'v> {
    fn kind(&self) -> Option<FieldKind> {
        if self.path.is_empty() { Some(FieldKind::Map) } else { self.volume.kind(&self.path) }
    }

    fn text(&self) -> String {
        self.volume.string(&self.path).unwrap_or_default()
    }

    fn fields(&self) -> Vec<String> {
        if self.path.is_empty() { self.volume.fields() } else { self.volume.fields_at(&self.path) }
    }

    fn inside(&self) -> Inside<'v> {
        Inside { volume: self.volume, path: self.path.clone(), left: self.fields().into_iter(), next: None }
    }

    fn any<'de, V: Visitor<'de>>(&self, visitor: V) -> Result<V::Value, Fault> {
        match self.kind() {
            None => visitor.visit_unit(),
            Some(FieldKind::Map) => visitor.visit_map(self.inside()),
            Some(FieldKind::List) => visitor.visit_seq(self.inside()),
            Some(FieldKind::Boolean) => visitor.visit_bool(self.text() == "true"),
            Some(FieldKind::Number) => number(&self.text(), visitor),
            Some(FieldKind::Text) => visitor.visit_string(self.text()),
        }
    }
}

fn number<'de, V: Visitor<'de>>(text: &str, visitor: V) -> Result<V::Value, Fault> {
    if let Ok(number) = text.parse::<u64>() {
        return visitor.visit_u64(number);
    }
    if let Ok(number) = text.parse::<i64>() {
        return visitor.visit_i64(number);
    }
    match text.parse::<f64>() {
        Ok(number) => visitor.visit_f64(number),
        Err(_) => Err(Fault::new(format_args!("{} is not a number", quoted(text)))),
    }
}

impl<'de> Deserializer<'de> for Place<'_> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.any(visitor).map_err(|fault| fault.at(&self.path))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        if self.kind().is_none() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        if self.kind() == Some(FieldKind::Map) {
            let fields = self.fields();
            if let Some(unknown) = fields.iter().find(|field| !known.contains(&field.as_str())) {
                let fault = Fault::new(suggest::unknown("no such field", unknown, known, str::to_owned));
                return Err(fault.at(&join(&self.path, unknown)));
            }
        }
        self.deserialize_any(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let words = match self.kind() {
            Some(FieldKind::Text) => {
                let word: StringDeserializer<Fault> = self.text().into_deserializer();
                visitor.visit_enum(word)
            }
            Some(other) => Err(Fault::new(format_args!("is a {other}, and must be a word"))),
            None => Err(Fault::new("is missing, and required")),
        };
        words.map_err(|fault| fault.at(&self.path))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map
        identifier ignored_any
    }
}

/// The fields of a map, or the entries of a list, that are left.
struct Inside<'v> {
    volume: &'v Volume<'v>,
    path: String,
    left: std::vec::IntoIter<String>,
    next: Option<String>,
}

impl<'v> Inside<'v> {
    fn place(&self, field: &str) -> Place<'v> {
        Place { volume: self.volume, path: join(&self.path, field) }
    }
}

impl<'de> de::MapAccess<'de> for Inside<'_> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Fault> {
        let Some(field) = self.left.next() else { return Ok(None) };
        self.next = Some(field.clone());
        let field: StringDeserializer<Fault> = field.into_deserializer();
        seed.deserialize(field).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        let field = self.next.take().unwrap_or_default();
        let place = self.place(&field);
        let path = place.path.clone();
        seed.deserialize(place).map_err(|fault| fault.at(&path))
    }
}

impl<'de> de::SeqAccess<'de> for Inside<'_> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Fault> {
        let Some(index) = self.left.next() else { return Ok(None) };
        let place = self.place(&index);
        let path = place.path.clone();
        seed.deserialize(place).map(Some).map_err(|fault| fault.at(&path))
    }
}

/// Reads a text, or a number by its text.
struct ByText<T>(fn(&str) -> Result<T, String>, &'static str);

impl<T> Visitor<'_> for ByText<T> {
    type Value = T;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.1)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        (self.0)(text).map_err(E::custom)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
        (self.0)(&number.to_string()).map_err(E::custom)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let read = |text: &str| text.parse::<Self>().map_err(|error| error.to_string());
        deserializer.deserialize_any(ByText(read, "a quantity such as 64Mi"))
    }
}

impl<'de> Deserialize<'de> for Mode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// A number is a mode's value (in YAML, `0750` is written so); text is octal.
        struct ModeVisitor;

        impl Visitor<'_> for ModeVisitor {
            type Value = Mode;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a mode, 0 to 0777")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Mode, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Mode, E> {
                let mode = u32::try_from(number).ok().and_then(Mode::new);
                mode.ok_or_else(|| {
                    E::custom(format_args!("{number} is not a mode; write 0 to 0777 (in JSON, 0 to 511)"))
                })
            }
        }
        deserializer.deserialize_any(ModeVisitor)
    }
}
