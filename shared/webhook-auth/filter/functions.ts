import type { Evaluation } from "./evaluation.ts";
import { contains, isList, isNumeric, type Value } from "./value.ts";

/** Computes a function of one argument. Undefined if the argument has the wrong type or form. */
type Call = (argument: Value, evaluation: Evaluation) => Value | undefined;

/** Functions that an expression may call. `has` and the loops are in operators.ts. */
export const FUNCTIONS: Readonly<Record<string, Call>> = { size, int: toInt, double: toDouble };

/** Computes a function of the value before the dot, and of at most one argument. */
export type Method = (on: Value, argument: Value | undefined, evaluation: Evaluation) => Value | undefined;

/** Functions that an expression may call after a dot. */
export const METHODS: Readonly<Record<string, Method>> = {
  size: (on, _, evaluation) => size(on, evaluation),
  startsWith: ofTexts((text, part) => text.startsWith(part)),
  endsWith: ofTexts((text, part) => text.endsWith(part)),
  contains: ofTexts(contains),
  lowerAscii(on, _, { spendText }) {
    if (typeof on !== "string") return undefined;
    spendText(8 * on.length); // the callback is called for each group of letters
    return on.replaceAll(/[A-Z]+/g, (letters) => letters.toLowerCase());
  },
};

function ofTexts(holds: (text: string, part: string) => boolean): Method {
  return (text, part, { spendText }) => {
    if (typeof text !== "string" || typeof part !== "string") return undefined;
    spendText(text.length + part.length);
    return holds(text, part);
  };
}

/** Returns the number of elements, members or characters. */
function size(value: Value, { spendText }: Evaluation): bigint | undefined {
  if (isList(value)) return BigInt(value.length);
  if (value instanceof Map) return BigInt(value.size);
  if (typeof value !== "string") return undefined;
  spendText(value.length);
  let characters = 0;
  for (const _ of value) characters += 1;
  return BigInt(characters);
}

function toInt(value: Value): bigint | undefined {
  if (typeof value === "bigint") return value;
  if (typeof value === "number") return Number.isFinite(value) ? BigInt(Math.trunc(value)) : undefined;
  return typeof value === "string" && /^-?[0-9]{1,19}$/.test(value) ? BigInt(value) : undefined;
}

/** Limit on the length of text that is converted to a number. Real numbers are shorter. */
const NUMBER_CHARACTERS_MAX = 64;

function toDouble(value: Value): number | undefined {
  if (isNumeric(value)) return Number(value);
  if (typeof value !== "string" || value.length > NUMBER_CHARACTERS_MAX) return undefined;
  return /^-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?$/.test(value) ? Number(value) : undefined;
}
