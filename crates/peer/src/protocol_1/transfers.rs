//! Questions and answers of transfers in protocol 1.

use super::{MessageReader, bucket, count, drop, number, text, version};
use crate::Error;
use crate::transfer::{
    ParcelHead, PeerVersionKey, PeerVersionPage, TransferAnswer, TransferKind, TransferQuestion,
};

const EXPORT: u8 = 1;
const VERSIONS: u8 = 2;
const BODIES: u8 = 3;
const PARCEL: u8 = 4;
const DROPS: u8 = 5;

/// Encodes a question of a transfer: a byte for its kind, then its values.
pub(crate) fn write_question(question: &TransferQuestion) -> Vec<u8> {
    let mut out = Vec::new();
    match question {
        TransferQuestion::Export(buckets) => {
            out.push(EXPORT);
            count(&mut out, buckets.len());
            buckets.iter().for_each(|of| bucket(&mut out, *of));
        }
        TransferQuestion::Parcel { place, from } => {
            out.push(PARCEL);
            number(&mut out, *place);
            number(&mut out, *from);
        }
        TransferQuestion::Versions { bucket: of, after } => {
            out.push(VERSIONS);
            bucket(&mut out, *of);
            write_place(&mut out, after.as_deref());
        }
        TransferQuestion::Drops(of) => {
            out.push(DROPS);
            bucket(&mut out, *of);
        }
        TransferQuestion::Bodies(ids) => {
            out.push(BODIES);
            count(&mut out, ids.len());
            ids.iter().for_each(|id| text(&mut out, id.as_str()));
        }
    }
    out
}

/// Decodes a question of a transfer.
pub(crate) fn read_question(bytes: &[u8]) -> Result<TransferQuestion, Error> {
    let mut reader = MessageReader::new(bytes);
    let question = match reader.byte()? {
        EXPORT => TransferQuestion::Export(reader.list(9, MessageReader::bucket)?),
        PARCEL => TransferQuestion::Parcel { place: reader.number()?, from: reader.number()? },
        VERSIONS => TransferQuestion::Versions { bucket: reader.bucket()?, after: read_place(&mut reader)? },
        DROPS => TransferQuestion::Drops(reader.bucket()?),
        BODIES => TransferQuestion::Bodies(reader.list(4, MessageReader::id)?),
        _ => return Err(Error::Unknown("a question is of no known kind")),
    };
    reader.end()?;
    Ok(question)
}

/// Encodes an answer of a transfer: a byte for success (0) or refusal (1), then its values.
pub(crate) fn write_answer(answer: &TransferAnswer) -> Vec<u8> {
    let mut out = vec![u8::from(matches!(answer, TransferAnswer::Refused(_)))];
    match answer {
        TransferAnswer::Refused(reason) => out.extend_from_slice(reason.as_bytes()),
        TransferAnswer::Export(heads) => {
            count(&mut out, heads.len());
            heads.iter().for_each(|head| write_head(&mut out, head));
        }
        TransferAnswer::Parcel(outline) => {
            count(&mut out, outline.len());
            outline.iter().for_each(|length| number(&mut out, u64::from(*length)));
        }
        TransferAnswer::Versions(page) => write_page(&mut out, page),
        TransferAnswer::Drops(drops) => {
            count(&mut out, drops.len());
            drops.iter().for_each(|of| drop(&mut out, of));
        }
        TransferAnswer::Bodies(versions) => {
            count(&mut out, versions.len());
            versions.iter().for_each(|of| version(&mut out, of));
        }
    }
    out
}

/// Decodes the answer to a question of this kind, which it does not name.
pub(crate) fn read_answer(kind: TransferKind, bytes: &[u8]) -> Result<TransferAnswer, Error> {
    let bytes = match bytes.split_first() {
        Some((0, bytes)) => bytes,
        Some((1, reason)) => {
            return Ok(TransferAnswer::Refused(String::from_utf8_lossy(reason).into_owned()));
        }
        _ => return Err(Error::Unknown("an answer is of no known kind")),
    };
    let mut reader = MessageReader::new(bytes);
    let answer = match kind {
        TransferKind::Export => TransferAnswer::Export(reader.list(6, read_head)?),
        TransferKind::Parcel => TransferAnswer::Parcel(reader.list(8, |reader| {
            u32::try_from(reader.number()?).map_err(|_| Error::Message("a part is longer than any"))
        })?),
        TransferKind::Versions => TransferAnswer::Versions(read_page(&mut reader)?),
        TransferKind::Drops => TransferAnswer::Drops(reader.list(13, MessageReader::drop)?),
        TransferKind::Bodies => TransferAnswer::Bodies(reader.list(13, MessageReader::version)?),
    };
    reader.end()?;
    Ok(answer)
}

fn write_head(out: &mut Vec<u8>, head: &ParcelHead) {
    count(out, head.shares.len());
    for (of, bytes, documents) in &head.shares {
        bucket(out, *of);
        number(out, *bytes);
        number(out, *documents);
    }
    for of in [head.bytes, head.identity] {
        out.push(u8::from(of.is_some()));
        of.into_iter().for_each(|of| number(out, of));
    }
}

fn read_head(reader: &mut MessageReader<'_>) -> Result<ParcelHead, Error> {
    let share = |reader: &mut MessageReader<'_>| Ok((reader.bucket()?, reader.number()?, reader.number()?));
    let shares = reader.list(25, share)?;
    let optional = |reader: &mut MessageReader<'_>| reader.flag()?.then(|| reader.number()).transpose();
    Ok(ParcelHead { shares, bytes: optional(reader)?, identity: optional(reader)? })
}

fn write_place(out: &mut Vec<u8>, place: Option<&str>) {
    out.push(u8::from(place.is_some()));
    if let Some(place) = place {
        text(out, place);
    }
}

fn read_place(reader: &mut MessageReader<'_>) -> Result<Option<String>, Error> {
    reader.flag()?.then(|| reader.text().map(str::to_owned)).transpose()
}

fn write_page(out: &mut Vec<u8>, page: &PeerVersionPage) {
    count(out, page.versions.len());
    for version in &page.versions {
        text(out, version.id.as_str());
        number(out, version.timestamp.0);
    }
    write_place(out, page.after.as_deref());
}

fn read_page(reader: &mut MessageReader<'_>) -> Result<PeerVersionPage, Error> {
    let key = |reader: &mut MessageReader<'_>| {
        Ok(PeerVersionKey { id: reader.id()?, timestamp: reader.timestamp()? })
    };
    Ok(PeerVersionPage { versions: reader.list(12, key)?, after: read_place(reader)? })
}
