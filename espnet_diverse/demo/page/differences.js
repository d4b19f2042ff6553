// Differences between two texts: by words, and by characters for scripts without spaces.

const OWN = "\\p{Script=Han}\\p{Script=Hiragana}\\p{Script=Katakana}\\p{Script=Thai}\\p{Script=Lao}\\p{Script=Khmer}\\p{Script=Myanmar}";
const PIECES = new RegExp(`\\s+|[${OWN}]\\p{M}*|[^\\s${OWN}]+`, "gu");
const MOST = 4e6;  // pairs of pieces; longer texts are compared as a whole

/** Compare a text with the best one; return its parts in order, {kind: "same" | "added" | "missing", text}. */
export function differences(best, text) {
  const [left, right] = [best, text].map((one) => one.match(PIECES) ?? []);
  const parts = [];
  const add = (kind, piece) => {
    if (parts.at(-1)?.kind === kind) parts.at(-1).text += piece;
    else parts.push({kind, text: piece});
  };
  const common = commonLengths(left, right);
  let [row, column] = [0, 0];
  while (row < left.length || column < right.length) {
    if (row < left.length && column < right.length && left[row] === right[column]) {
      add("same", right[column]);
      [row, column] = [row + 1, column + 1];
    } else if (column === right.length || (row < left.length && common(row + 1, column) >= common(row, column + 1))) {
      add("missing", left[row++]);
    } else {
      add("added", right[column++]);
    }
  }
  return parts;
}

/** Return a function of two positions: the length of the longest common subsequence of the rests from there. */
function commonLengths(left, right) {
  if (left.length * right.length > MOST) return () => 0;
  const width = right.length + 1;
  const table = new Uint16Array((left.length + 1) * width);
  for (let row = left.length - 1; row >= 0; row--) {
    for (let column = right.length - 1; column >= 0; column--) {
      table[row * width + column] = left[row] === right[column]
        ? 1 + table[(row + 1) * width + column + 1]
        : Math.max(table[(row + 1) * width + column], table[row * width + column + 1]);
    }
  }
  return (row, column) => table[row * width + column];
}
