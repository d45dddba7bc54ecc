//! How each type of Kafka's message specifications stands on the wire.
//!
//! Structures are made of these by [`message!`](super::schema); it refuses to know any of them by name.

use bytes::Bytes;
use highwater_engine::units::TopicId;

use super::error_code::ErrorCode;
use super::read::{DecodeError, DecodeFault, Reader};
use super::records::Records;
use super::write::Writer;

/// What decides a field's form beside its type.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// The version of the message.
    pub(super) version: i16,
    /// Whether the message's version has compact lengths and tagged fields (KIP-482).
    pub(super) flexible: bool,
    /// Whether the field may be null in this version.
    pub(super) nullable: bool,
}

impl Shape {
    pub(super) const fn new(version: i16, flexible: bool) -> Self {
        Self { version, flexible, nullable: false }
    }

    /// The form of a field of a structure of this form.
    pub(super) const fn field(self, nullable: bool) -> Self {
        Self { nullable, ..self }
    }
}

/// A type that a message's field can have.
pub(super) trait Field: Sized {
    /// The least bytes that a value takes; a lower bound, never zero.
    fn bytes_min(shape: Shape) -> usize;
    /// Reads a value.
    fn decode(reader: &mut Reader, shape: Shape) -> Result<Self, DecodeError>;
    /// Writes a value. An absent value is written empty where this version has no null.
    fn encode(&self, writer: &mut Writer, shape: Shape);
}

macro_rules! integer_fields {
    ($($type:ty),+) => { $(
        impl Field for $type {
            fn bytes_min(_: Shape) -> usize {
                size_of::<Self>()
            }

            fn decode(reader: &mut Reader, _: Shape) -> Result<Self, DecodeError> {
                reader.array().map(Self::from_be_bytes)
            }

            fn encode(&self, writer: &mut Writer, _: Shape) {
                writer.put(&self.to_be_bytes());
            }
        }
    )+ };
}

integer_fields!(i8, i16, i32, i64);

impl Field for bool {
    fn bytes_min(_: Shape) -> usize {
        1
    }

    fn decode(reader: &mut Reader, _: Shape) -> Result<Self, DecodeError> {
        reader.array::<1>().map(|[byte]| byte != 0)
    }

    fn encode(&self, writer: &mut Writer, _: Shape) {
        writer.put(&[u8::from(*self)]);
    }
}

impl Field for ErrorCode {
    fn bytes_min(_: Shape) -> usize {
        2
    }

    fn decode(reader: &mut Reader, shape: Shape) -> Result<Self, DecodeError> {
        i16::decode(reader, shape).map(Self::from_code)
    }

    fn encode(&self, writer: &mut Writer, shape: Shape) {
        self.code().encode(writer, shape);
    }
}

/// An id of 16 bytes that is not a topic's.
impl Field for [u8; 16] {
    fn bytes_min(_: Shape) -> usize {
        16
    }

    fn decode(reader: &mut Reader, _: Shape) -> Result<Self, DecodeError> {
        reader.array()
    }

    fn encode(&self, writer: &mut Writer, _: Shape) {
        writer.put(self);
    }
}

/// All zeros, Kafka's "no id", is `None`.
impl Field for Option<TopicId> {
    fn bytes_min(_: Shape) -> usize {
        16
    }

    fn decode(reader: &mut Reader, _: Shape) -> Result<Self, DecodeError> {
        reader.array().map(TopicId::new)
    }

    fn encode(&self, writer: &mut Writer, _: Shape) {
        writer.put(&self.map_or([0; 16], TopicId::bytes));
    }
}

/// Reads the length before bytes or elements.
fn decode_length(reader: &mut Reader, shape: Shape) -> Result<Option<usize>, DecodeError> {
    if shape.flexible {
        return reader.compact_length();
    }
    let length = i32::from_be_bytes(reader.array()?);
    reader.classic_length(i64::from(length))
}

/// Writes the length before bytes or elements; what is absent is empty where there is no null.
fn encode_length(length: Option<usize>, writer: &mut Writer, shape: Shape) {
    let length = if shape.nullable { length } else { Some(length.unwrap_or(0)) };
    if shape.flexible { writer.compact_length(length) } else { writer.classic_length(length) }
}

const fn length_bytes_min(shape: Shape) -> usize {
    if shape.flexible { 1 } else { 4 }
}

/// Makes fields of a type with a length before it: as it is, never null, and as an `Option`.
macro_rules! prefixed_fields {
    ($([$($generic:tt)*] $type:ty),+ $(,)?) => { $(
        impl $($generic)* Field for $type {
            fn bytes_min(shape: Shape) -> usize {
                Self::prefix_bytes_min(shape)
            }

            fn decode(reader: &mut Reader, shape: Shape) -> Result<Self, DecodeError> {
                Self::decode_present(reader, shape)?.ok_or_else(|| reader.fault(DecodeFault::Null))
            }

            fn encode(&self, writer: &mut Writer, shape: Shape) {
                Self::encode_present(Some(self), writer, shape);
            }
        }

        impl $($generic)* Field for Option<$type> {
            fn bytes_min(shape: Shape) -> usize {
                <$type>::prefix_bytes_min(shape)
            }

            fn decode(reader: &mut Reader, shape: Shape) -> Result<Self, DecodeError> {
                let value = <$type>::decode_present(reader, shape)?;
                if value.is_none() && !shape.nullable {
                    return Err(reader.fault(DecodeFault::Null));
                }
                Ok(value)
            }

            fn encode(&self, writer: &mut Writer, shape: Shape) {
                <$type>::encode_present(self.as_ref(), writer, shape);
            }
        }
    )+ };
}

prefixed_fields!([] String, [] Bytes, [] Records, [<T: Field>] Vec<T>);

/// A type with its length before it, so that it can be null.
trait Prefixed: Sized {
    fn prefix_bytes_min(shape: Shape) -> usize {
        length_bytes_min(shape)
    }

    fn decode_present(reader: &mut Reader, shape: Shape) -> Result<Option<Self>, DecodeError>;

    fn encode_present(value: Option<&Self>, writer: &mut Writer, shape: Shape);
}

impl Prefixed for String {
    fn prefix_bytes_min(shape: Shape) -> usize {
        if shape.flexible { 1 } else { 2 }
    }

    fn decode_present(reader: &mut Reader, shape: Shape) -> Result<Option<Self>, DecodeError> {
        let length = if shape.flexible {
            reader.compact_length()?
        } else {
            let length = i16::from_be_bytes(reader.array()?);
            reader.classic_length(i64::from(length))?
        };
        length.map(|bytes| reader.string(bytes)).transpose()
    }

    fn encode_present(value: Option<&Self>, writer: &mut Writer, shape: Shape) {
        let length = value.map(Self::len);
        let length = if shape.nullable { length } else { Some(length.unwrap_or(0)) };
        if shape.flexible {
            writer.compact_length(length);
        } else {
            writer.string_length(length);
        }
        writer.put(value.map_or(&[], |value| value.as_bytes()));
    }
}

impl Prefixed for Bytes {
    fn decode_present(reader: &mut Reader, shape: Shape) -> Result<Option<Self>, DecodeError> {
        decode_length(reader, shape)?.map(|bytes| reader.slice(bytes)).transpose()
    }

    fn encode_present(value: Option<&Self>, writer: &mut Writer, shape: Shape) {
        encode_length(value.map(Self::len), writer, shape);
        if let Some(bytes) = value {
            writer.put_part(bytes);
        }
    }
}

impl Prefixed for Records {
    fn decode_present(reader: &mut Reader, shape: Shape) -> Result<Option<Self>, DecodeError> {
        Ok(Bytes::decode_present(reader, shape)?.map(Self::from))
    }

    fn encode_present(value: Option<&Self>, writer: &mut Writer, shape: Shape) {
        encode_length(value.map(Self::len), writer, shape);
        value.into_iter().flat_map(Self::pieces).for_each(|piece| writer.put_part(piece));
    }
}

impl<T: Field> Prefixed for Vec<T> {
    fn decode_present(reader: &mut Reader, shape: Shape) -> Result<Option<Self>, DecodeError> {
        let Some(count) = decode_length(reader, shape)? else { return Ok(None) };
        let element = shape.field(false);
        reader.check_count::<T>(count, T::bytes_min(element))?;
        let mut elements = Self::with_capacity(count);
        for _ in 0..count {
            elements.push(T::decode(reader, element)?);
        }
        Ok(Some(elements))
    }

    fn encode_present(value: Option<&Self>, writer: &mut Writer, shape: Shape) {
        encode_length(value.map(Self::len), writer, shape);
        for element in value.into_iter().flatten() {
            element.encode(writer, shape.field(false));
        }
    }
}
