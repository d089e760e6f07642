//! Messages of other nodes under fuzzing.

use millrace_node::cluster::{DocumentsAnswer, DocumentsQuestion, ReadersQuestion};
use millrace_node::indexes::{PlacedAnswer, PlacedQuestion};
use millrace_search::ShareRequest;

use super::erasures::{ErasureAnswerMessage, ErasureQuestionMessage};
use super::group_sizes::{SizesAnswerMessage, SizesQuestionMessage};
use super::indexes::{IndexAnswerMessage, IndexQuestionMessage};
use super::message::MessageProtocol;
use super::readers::ReadersAnswerMessage;
use super::share::ShareBegin;

/// Decodes bytes as every kind of message of every protocol.
pub(crate) fn fuzz(bytes: &[u8]) {
    for protocol in [MessageProtocol::First, MessageProtocol::Second] {
        // The results do not matter: decoding must end.
        let _ = protocol.decode::<ShareBegin>(bytes);
        let _ = protocol.decode::<ShareRequest>(bytes);
        let _ = protocol.decode::<ReadersQuestion>(bytes);
        let _ = protocol.decode::<ReadersAnswerMessage>(bytes);
        let _ = protocol.decode(bytes).map(SizesQuestionMessage::question);
        let _ = protocol.decode(bytes).map(SizesAnswerMessage::page);
        let _ = protocol.decode(bytes).map(ErasureQuestionMessage::question);
        let _ = protocol.decode(bytes).map(ErasureAnswerMessage::erasures);
        let _ = protocol.decode(bytes).map(IndexQuestionMessage::question);
        let _ = protocol.decode(bytes).map(IndexAnswerMessage::answer);
        let _ = protocol.decode::<PlacedQuestion>(bytes);
        let _ = protocol.decode::<PlacedAnswer>(bytes);
        let _ = protocol.decode::<DocumentsQuestion>(bytes);
        let _ = protocol.decode::<DocumentsAnswer>(bytes);
        // What was read can be written, and read again.
        if let Ok(reply) = protocol.decode_reply(bytes) {
            let written =
                protocol.append_reply(Vec::new(), reply).expect("a reply that was sent can be sent");
            let read = protocol.decode_reply(&written).expect("what was written can be read");
            let again = protocol.append_reply(Vec::new(), read).expect("a reply that was sent can be sent");
            assert!(again == written, "{protocol:?}: a reply changes on its way");
        }
    }
}
