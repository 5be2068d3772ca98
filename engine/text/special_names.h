// Names under which models of different families know their special tokens.
#pragma once

#include "engine/text/vocabulary.h"

#include <span>
#include <string_view>

namespace orrery {

/// The names of tokens that end an answer. Not every file says which of its tokens they are.
std::span<const std::string_view> end_names();

/// Gives special tokens the kind that they need. Some converters type them as ordinary text, or write no
/// types at all: then the markers of a chat would be cut into letters and no answer would end. Others type
/// the ends of answers as user-defined: then any text could end an answer.
///
/// - Control, whatever their type: the tokens of end_names(), and those that the file itself names as its
///   beginning or as an end. A single byte or character, which text needs, keeps its type, and so does </s>
///   where it may be a tag of HTML: typed as ordinary text of a byte-level vocabulary.
/// - Control where they are typed as ordinary text: the markers of turns, and names of the form <|…|>.
///   Neither can be the result of merges, which do not join letters and brackets.
/// - User-defined where they are typed as ordinary text: the markers of thoughts and tool calls, which are
/// part of an answer.
/// - Unknown and byte tokens of SentencePiece where they are typed as ordinary text: <unk> and <0x00> to
/// <0xFF>.
///
/// Logs a warning where ordinary text became special. The lists of a vocabulary are of one length.
void correct_kinds(Vocabulary& vocabulary);

} // namespace orrery
