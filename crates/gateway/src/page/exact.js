// JSON without a loss: integers that JavaScript's numbers do not have, such as numbers of groups beyond 2^53,
// are read as BigInt, and written as they were.

const TOKENS = /("[^"\\]*(?:\\.[^"\\]*)*")(\s*:)?|-?\d[\d.eE+-]*/g;
const WHOLE = /^-?\d+$/;

// Marks an integer that is on its way through JSON.parse or JSON.stringify as a text. A text of its own that begins
// so gets the mark twice. JSON has this character as an escape alone, which is written in one way only.
const MARK = "\0";
const ESCAPED = '"\\u0000';

// The value of a JSON text.
export function parseExactly(text) {
  const marked = text.replace(TOKENS, (token, string, colon) => {
    if (colon) return token;
    if (string) return string.startsWith(ESCAPED) ? ESCAPED + string.slice(1) : token;
    return WHOLE.test(token) && !Number.isSafeInteger(Number(token)) ? ESCAPED + token + '"' : token;
  });
  return JSON.parse(marked, (name, value) => {
    if (typeof value !== "string" || !value.startsWith(MARK)) return value;
    return value.startsWith(MARK, 1) ? value.slice(1) : BigInt(value.slice(1));
  });
}

// The JSON text of a value.
export function textOf(value, indent) {
  const marked = JSON.stringify(value, (name, part) => {
    if (typeof part === "bigint") return MARK + part;
    return typeof part === "string" && part.startsWith(MARK) ? MARK + part : part;
  }, indent);
  return marked.replace(TOKENS, (token, string, colon) => {
    if (colon || !string || !string.startsWith(ESCAPED)) return token;
    const rest = string.slice(ESCAPED.length);
    return rest.startsWith("\\u0000") ? '"' + rest : rest.slice(0, -1);
  });
}
