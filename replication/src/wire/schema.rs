//! The form in which messages are described: once, field by field, as in Kafka's message specifications.
//!
//! ```text
//! message! {
//!     /// What the structure is for.
//!     pub struct Name {
//!         /// What the field is for.
//!         field: Type, VERSIONS [, nullable VERSIONS] [, tag TAG] [, default VALUE];
//!     }
//! }
//! ```
//!
//! `VERSIONS` is a range, such as `4..` or `0..=12`. A field keeps its default where a version lacks it, and is not written there.
//! Tagged fields are written if they differ from their default, in the order of the description; unknown ones are skipped.

/// Makes structures of a message out of their description: the type, its defaults, and how it is read and written.
macro_rules! message {
    ($(
        $(#[$attribute:meta])*
        pub struct $name:ident {$(
            $(#[$field_attribute:meta])*
            $field:ident: $type:ty, $versions:expr
                $(, nullable $nullable:expr)? $(, tag $tag:literal)? $(, default $default:expr)?;
        )*}
    )+) => { $(
        $(#[$attribute])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name {
            $( $(#[$field_attribute])* pub $field: $type, )*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $( $field: message!(@default $type $(, $default)?), )* }
            }
        }

        impl $crate::wire::field::Field for $name {
            fn bytes_min(shape: $crate::wire::field::Shape) -> usize {
                let mut bytes = usize::from(shape.flexible);
                $( message!(@untagged [$($tag)?] {
                    if ($versions).contains(&shape.version) {
                        bytes += <$type as $crate::wire::field::Field>::bytes_min(shape);
                    }
                }); )*
                bytes
            }

            fn decode(
                reader: &mut $crate::wire::read::Reader,
                shape: $crate::wire::field::Shape,
            ) -> Result<Self, $crate::wire::read::DecodeError> {
                let mut value = Self::default();
                $( message!(@untagged [$($tag)?] {
                    if ($versions).contains(&shape.version) {
                        let shape = shape.field(message!(@nullable shape $(, $nullable)?));
                        value.$field = <$type as $crate::wire::field::Field>::decode(reader, shape)
                            .map_err(|error| error.within(stringify!($name), stringify!($field)))?;
                    }
                }); )*
                if shape.flexible {
                    reader.tagged(|tag, reader| {
                        $( message!(@tagged [$($tag)?] known {
                            if tag == known && ($versions).contains(&shape.version) {
                                let shape = shape.field(message!(@nullable shape $(, $nullable)?));
                                value.$field = <$type as $crate::wire::field::Field>::decode(reader, shape)
                                    .map_err(|error| error.within(stringify!($name), stringify!($field)))?;
                            }
                        }); )*
                        let _ = (tag, reader);
                        Ok(())
                    }).map_err(|error| error.within(stringify!($name), "tagged fields"))?;
                }
                Ok(value)
            }

            fn encode(&self, writer: &mut $crate::wire::write::Writer, shape: $crate::wire::field::Shape) {
                $( message!(@untagged [$($tag)?] {
                    if ($versions).contains(&shape.version) {
                        let shape = shape.field(message!(@nullable shape $(, $nullable)?));
                        $crate::wire::field::Field::encode(&self.$field, writer, shape);
                    }
                }); )*
                if shape.flexible {
                    let present: u32 = [$( message!(@if_tagged [$($tag)?] {
                        ($versions).contains(&shape.version)
                            && self.$field != message!(@default $type $(, $default)?)
                    }) ),*].into_iter().map(u32::from).sum();
                    writer.unsigned_varint(present);
                    $( message!(@tagged [$($tag)?] tag {
                        if ($versions).contains(&shape.version)
                            && self.$field != message!(@default $type $(, $default)?)
                        {
                            let shape = shape.field(message!(@nullable shape $(, $nullable)?));
                            writer.tagged(tag, |writer| {
                                $crate::wire::field::Field::encode(&self.$field, writer, shape);
                            });
                        }
                    }); )*
                }
            }
        }

        #[cfg(any(test, feature = "json"))]
        impl $crate::wire::json::ToJson for $name {
            fn to_json(&self, version: i16) -> serde_json::Value {
                let mut object = serde_json::Map::new();
                $(
                    let is_left_out = message!(@if_tagged [$($tag)?] {
                        self.$field == message!(@default $type $(, $default)?)
                    });
                    if ($versions).contains(&version) && !is_left_out {
                        object.insert(
                            $crate::wire::json::camel_case(stringify!($field)),
                            $crate::wire::json::ToJson::to_json(&self.$field, version),
                        );
                    }
                )*
                serde_json::Value::Object(object)
            }
        }
    )+ };
    (@default $type:ty) => { <$type as Default>::default() };
    (@default $type:ty, $default:expr) => { $default };
    (@nullable $shape:ident) => { false };
    (@nullable $shape:ident, $nullable:expr) => { ($nullable).contains(&$shape.version) };
    (@untagged [] $code:block) => { $code };
    (@untagged [$tag:literal] $code:block) => {};
    (@tagged [] $name:ident $code:block) => {};
    (@tagged [$tag:literal] $name:ident $code:block) => {{ let $name: u32 = $tag; $code }};
    (@if_tagged [] $condition:block) => { false };
    (@if_tagged [$tag:literal] $condition:block) => { $condition };
}

pub(super) use message;
